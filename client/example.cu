// The smallest consumer on a GPU: one epoch of a dataset, shuffled, in batches of 256, with a kernel that sums the
// first field of each. The CPU never waits for the GPU in the loop: the stream waits for each batch and gives it
// back.
//   nvcc example.cu $(pkg-config --cflags --libs libfeed) -o example && ./example fashion-mnist
#include <stdio.h>

#include <feed.h>

__global__ static void add_up(const unsigned char *bytes, size_t count, unsigned long long *sum) {
    unsigned long long mine = 0;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        mine += bytes[i];
    atomicAdd(sum, mine);
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: %s DATASET\n", arguments[0]);
        return 2;
    }
    struct feed_options options = {};
    options.dataset = arguments[1];
    options.batch_size = 256;
    options.shuffle = true;
    options.seed = 7;
    options.epochs = 1;
    options.device = "cuda:0";

    struct feed *feed;
    struct feed_batch batch;
    cudaStream_t stream;
    unsigned long long samples = 0, *sum;

    // Before any call of CUDA's: where there is no driver or no such GPU, its sentence says so best.
    int err = feed_open(&feed, &options);
    if (err < 0) {
        fprintf(stderr, "%s: %s\n", arguments[0], feed_strerror(feed));
        feed_close(feed);
        return 1;
    }
    if (cudaStreamCreate(&stream) != cudaSuccess || cudaMallocManaged(&sum, sizeof *sum) != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", arguments[0], cudaGetErrorString(cudaGetLastError()));
        feed_close(feed);
        return 1;
    }
    *sum = 0;

    while (err >= 0 && (err = feed_next(feed, &batch, -1)) == 1) {
        const struct feed_array *field = &batch.field[0];
        samples += batch.count;
        err = feed_batch_wait(feed, &batch, stream);
        if (err < 0)
            break;
        add_up<<<64, 256, 0, stream>>>((const unsigned char *)field->data, field->bytes, sum);
        err = feed_batch_release(feed, &batch, stream);
    }
    cudaError_t failed = cudaStreamSynchronize(stream);
    if (err < 0)
        fprintf(stderr, "%s: %s\n", arguments[0], feed_strerror(feed));
    else if (failed != cudaSuccess)
        fprintf(stderr, "%s: %s\n", arguments[0], cudaGetErrorString(failed));
    else
        printf("%llu samples, the bytes of their first field add up to %llu\n", samples, *sum);
    feed_close(feed);
    return err < 0 || failed != cudaSuccess;
}
