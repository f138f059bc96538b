// Implements work.h with the CUDA runtime and the kernels.
#include <cudaTypedefs.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/gpu/kernels.cuh"

#define BLOCKS_PER_MULTIPROCESSOR 2u // of the kernels that read: enough for the bus many times over

#define WORDS_VERSION 12000 // of CUDA, whose interface of these two functions is meant

static uint32_t opened, multiprocessors, burning_blocks;
static PFN_cuStreamWaitValue64_v11070 wait_value;
static PFN_cuStreamWriteValue64_v11070 write_value;

#define CHECK(call) check_call(call, #call)

static void check_call(cudaError_t result, const char *call) {
    if (result == cudaSuccess)
        return;
    fprintf(stderr, "%s: %.60s: %s\n", program_invocation_short_name, call, cudaGetErrorString(result));
    exit(1);
}

static cudaStream_t stream_of(work_stream stream) {
    return (cudaStream_t)stream;
}

static cudaEvent_t event_of(work_event event) {
    return (cudaEvent_t)event;
}

// Of the driver, which is not linked.
static void *driver_function(const char *name) {
    void *function = NULL;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    CHECK(cudaGetDriverEntryPointByVersion(name, &function, WORDS_VERSION, cudaEnableDefault, &result));
#else
    CHECK(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &result));
#endif
    if (result == cudaDriverEntryPointSuccess && function)
        return function;
    fprintf(stderr, "%s: the driver does not have %s\n", program_invocation_short_name, name);
    exit(1);
}

static void cuda_open(uint32_t ordinal) {
    int threads = 0, count = 0, blocks = 0;
    setenv("CUDA_MODULE_LOADING", "EAGER", 0); // no kernel may be loaded during a measurement
    CHECK(cudaSetDevice((int)ordinal));
    CHECK(cudaFree(NULL)); // makes the context
    CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, (int)ordinal));
    CHECK(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, (int)ordinal));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, burn_kernel, BLOCK_THREADS, 0));
    wait_value = (PFN_cuStreamWaitValue64_v11070)driver_function("cuStreamWaitValue64");
    write_value = (PFN_cuStreamWriteValue64_v11070)driver_function("cuStreamWriteValue64");
    opened = ordinal;
    multiprocessors = (uint32_t)count;
    burning_blocks = (uint32_t)(count * blocks);
    if (blocks * (int)BLOCK_THREADS < threads)
        fprintf(stderr, "%s: the busy kernel fills %d of %d threads of a multiprocessor\n",
                program_invocation_short_name, blocks * (int)BLOCK_THREADS, threads);
}

static void cuda_join(void) {
    CHECK(cudaSetDevice((int)opened));
}

static uint64_t cuda_free_bytes(void) {
    size_t unused = 0, total = 0;
    CHECK(cudaMemGetInfo(&unused, &total));
    return unused;
}

static void cuda_finish(void) {
    CHECK(cudaDeviceSynchronize());
}

// ---- Memory -------------------------------------------------------------------------------------------------

static void *cuda_memory(uint64_t bytes) {
    void *memory = NULL;
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMemset(memory, 0, bytes));
    CHECK(cudaDeviceSynchronize());
    return memory;
}

static void *cuda_pinned(uint64_t bytes) {
    void *memory = NULL;
    CHECK(cudaMallocHost(&memory, bytes));
    return memory;
}

static void cuda_pin(void *memory, uint64_t bytes) {
    CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterPortable));
}

static void cuda_copy_in(void *to, const void *from, uint64_t bytes, work_stream stream) {
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_of(stream)));
}

static void cuda_copy_out(void *to, const void *from, uint64_t bytes, work_stream stream) {
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_of(stream)));
}

// ---- Streams and events -------------------------------------------------------------------------------------

static work_stream cuda_stream(bool urgent) {
    int least = 0, greatest = 0;
    cudaStream_t stream = NULL;
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least));
    return stream;
}

static work_event cuda_event(bool spin) {
    cudaEvent_t event = NULL;
    CHECK(cudaEventCreateWithFlags(&event, spin ? cudaEventDefault : cudaEventBlockingSync));
    return event;
}

static void cuda_record(work_event event, work_stream stream) {
    CHECK(cudaEventRecord(event_of(event), stream_of(stream)));
}

static void cuda_wait(work_event event) {
    CHECK(cudaEventSynchronize(event_of(event)));
}

static void cuda_wait_on(work_stream stream, work_event event) {
    CHECK(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
}

static double cuda_seconds(work_event from, work_event to) {
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, event_of(from), event_of(to)));
    return (double)milliseconds / 1e3;
}

static void check_driver(CUresult result, const char *name) {
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: %s: error %d of the driver\n", program_invocation_short_name, name, (int)result);
    exit(1);
}

// As a feed does it.
static void cuda_wait_word(work_stream stream, const uint64_t *word, uint64_t value) {
    check_driver(wait_value(stream_of(stream), (CUdeviceptr)word, value, CU_STREAM_WAIT_VALUE_GEQ),
                 "cuStreamWaitValue64");
}

static void cuda_write_word(work_stream stream, uint64_t *word, uint64_t value) {
    check_driver(write_value(stream_of(stream), (CUdeviceptr)word, value, CU_STREAM_WRITE_VALUE_DEFAULT),
                 "cuStreamWriteValue64");
}

// ---- Kernels ------------------------------------------------------------------------------------------------

static uint32_t blocks_for(uint64_t threads) {
    uint64_t blocks = (threads + BLOCK_THREADS - 1) / BLOCK_THREADS;
    uint64_t most = (uint64_t)multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    return (uint32_t)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

static void cuda_make_sums(const struct work_check *check, work_stream stream) {
    make_sums_kernel<<<blocks_for(check->samples * WARP), BLOCK_THREADS, 0, stream_of(stream)>>>(*check);
    CHECK(cudaGetLastError());
}

static void cuda_check(const struct work_check *check, work_stream stream) {
    const uint32_t blocks = blocks_for(check->count * WARP);
    if (check->count && check->word_sums)
        check_kernel<true><<<blocks, BLOCK_THREADS, 0, stream_of(stream)>>>(*check);
    else if (check->count)
        check_kernel<false><<<blocks, BLOCK_THREADS, 0, stream_of(stream)>>>(*check);
    CHECK(cudaGetLastError());
}

static void cuda_check_epoch(const struct work_check *check, uint32_t epochs, work_stream stream) {
    check_epoch_kernel<<<blocks_for(check->samples), BLOCK_THREADS, 0, stream_of(stream)>>>(*check, epochs);
    CHECK(cudaGetLastError());
}

static void cuda_hash(const struct work_hash *hash, work_stream stream) {
    if (hash->count)
        hash_kernel<<<blocks_for(hash->count * WARP), BLOCK_THREADS, 0, stream_of(stream)>>>(*hash);
    CHECK(cudaGetLastError());
}

static void cuda_sum(const void *data, uint64_t bytes, uint64_t *sum, work_stream stream) {
    uint64_t pairs = bytes / sizeof(ulonglong2);
    sum_kernel<<<blocks_for(pairs / LOADS), BLOCK_THREADS, 0, stream_of(stream)>>>((const ulonglong2 *)data,
                                                                                   pairs, sum);
    CHECK(cudaGetLastError());
}

static void cuda_burn(uint32_t waves, work_stream stream) {
    burn_kernel<<<burning_blocks * waves, BLOCK_THREADS, 0, stream_of(stream)>>>(NULL, 0.75f);
    CHECK(cudaGetLastError());
}

static void cuda_multiply(const float *a, const float *b, float *c, uint32_t n, work_stream stream) {
    multiply_kernel<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE_ROWS), 0, stream_of(stream)>>>(a, b, c, n);
    CHECK(cudaGetLastError());
}

// In the order of struct work.
extern "C" const struct work work_cuda = {
    "cuda",           cuda_open,      cuda_join,       cuda_free_bytes, cuda_finish,
    cuda_memory,      cuda_pinned,    cuda_pin,        cuda_stream,     cuda_copy_in,
    cuda_copy_out,    cuda_event,     cuda_record,     cuda_wait,       cuda_wait_on,
    cuda_seconds,     cuda_wait_word, cuda_write_word, cuda_make_sums,  cuda_check,
    cuda_check_epoch, cuda_hash,      cuda_sum,        cuda_burn,       cuda_multiply,
};
