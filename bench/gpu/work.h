// What the measurements need from a GPU: memory, streams, events, and the kernels. There are two implementations with
// one table: the CUDA runtime (work_cuda.cu), and this process's own memory and thread (work_host.c). The latter lets
// everything except the figures be tried without a GPU; it does queued work within the call.
//
// In these programs any failure ends the program with a sentence. One thread opens it; others join first.
#ifndef FEEDD_BENCH_GPU_WORK_H
#define FEEDD_BENCH_GPU_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WORK_FIELDS_MOST 16

typedef void *work_stream; // a cudaStream_t
typedef void *work_event;

// What the checking kernel has counted, on the GPU, since this was created.
struct work_totals {
    uint64_t samples;       // checked, every byte of them
    uint64_t wrong_samples; // whose first word is not the first word of any sample
    uint64_t wrong_words;   // that do not match the sample's first word
    uint64_t wrong_sums;    // samples whose words have the wrong sum
    uint64_t not_once;      // samples that were not in an epoch exactly once
};

// A batch for the checking kernel, which compares every word of a sample with what it must be or, at a few percent of
// the arithmetic, adds all of them up and compares the sum. All pointers are to the GPU's memory.
struct work_check {
    const void *data;
    uint64_t count, sample_bytes; // sample_bytes: a multiple of 16
    uint64_t samples;             // of the dataset
    uint32_t *seen;               // one per sample of the dataset: how often it came; or NULL
    uint64_t *word_sums; // one per sample of the dataset: the sum of its words; NULL: check each word
    uint64_t *sum;       // gets the sum of the samples' numbers
    struct work_totals *totals;
};

// A field of a batch for the hashing kernel; any size, any alignment. hashes[i * stride] gets that of sample i.
struct work_hash {
    const void *data;
    uint64_t count, sample_bytes;
    uint64_t *hashes;
    uint64_t stride;
};

struct work {
    const char *kind; // "cuda", "host"
    void (*open)(uint32_t ordinal);
    void (*join)(void);
    uint64_t (*free_bytes)(void);
    void (*finish)(void); // waits for all that was queued

    void *(*memory)(uint64_t bytes); // on the GPU, all 0
    void *(*pinned)(uint64_t bytes); // on the host
    void (*pin)(void *memory, uint64_t bytes);
    work_stream (*stream)(bool urgent);
    void (*copy_in)(void *to, const void *from, uint64_t bytes, work_stream stream);
    void (*copy_out)(void *to, const void *from, uint64_t bytes,
                     work_stream stream); // `to`: pinned, or it waits

    work_event (*event)(bool spin); // spin: waiting for it busy-waits on the CPU
    void (*record)(work_event event, work_stream stream);
    void (*wait)(work_event event);                        // the CPU
    void (*wait_on)(work_stream stream, work_event event); // the stream
    double (*seconds)(work_event from, work_event to);     // between two that were recorded and waited for

    void (*wait_word)(work_stream stream, const uint64_t *word,
                      uint64_t value); // on the GPU, until it is that much
    void (*write_word)(work_stream stream, uint64_t *word, uint64_t value); // in pinned memory

    void (*make_sums)(const struct work_check *check,
                      work_stream stream); // check->word_sums, without a batch
    void (*check)(const struct work_check *check, work_stream stream);
    void (*check_epoch)(const struct work_check *check, uint32_t epochs, work_stream stream);
    void (*hash)(const struct work_hash *hash, work_stream stream);
    void (*sum)(const void *data, uint64_t bytes, uint64_t *sum, work_stream stream); // reads every byte
    void (*burn)(uint32_t waves, work_stream stream); // keeps every multiprocessor busy with arithmetic
    void (*multiply)(const float *a, const float *b, float *c, uint32_t n, work_stream stream); // n: of 32
};

extern const struct work work_cuda, work_host;

// "cuda", "cuda:1" as this process counts its GPUs, or "host:0".
const struct work *work_open(const char *device);

// Ends the program with a message after that many seconds: a measurement must not hang.
void work_time_limit(double seconds);

#ifdef __cplusplus
}
#endif
#endif
