// A GPU simulated by the calling thread. Its figures mean nothing, but it shows that the programs work.
#include <sys/mman.h>

#include "base/sizes.h"
#include "bench/bench.h"
#include "bench/gpu/content.h"
#include "bench/gpu/work.h"

#define BURN_STEPS 20000u // of a wave

static void host_open(uint32_t ordinal) {
    (void)ordinal;
}

static void host_nothing(void) {}

static uint64_t host_free_bytes(void) {
    return 0;
}

static void *host_memory(uint64_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        bench_die("memory", errno);
    return memory;
}

static void host_pin(void *memory, uint64_t bytes) {
    (void)memory;
    (void)bytes;
}

// NULL: the stream of a simulated GPU that does its work within the call.
static work_stream host_stream(bool urgent) {
    (void)urgent;
    return NULL;
}

static void host_copy(void *to, const void *from, uint64_t bytes, work_stream stream) {
    (void)stream;
    memcpy(to, from, bytes);
}

// An event is the time at which it was recorded.
static work_event host_event(bool spin) {
    (void)spin;
    uint64_t *event = calloc(1, sizeof *event);
    if (!event)
        bench_die("memory", ENOMEM);
    return event;
}

static void host_record(work_event event, work_stream stream) {
    (void)stream;
    *(uint64_t *)event = bench_ns();
}

static void host_wait(work_event event) {
    (void)event;
}

static void host_wait_on(work_stream stream, work_event event) {
    (void)stream;
    (void)event;
}

static double host_seconds(work_event from, work_event to) {
    return (double)(*(uint64_t *)to - *(uint64_t *)from) / 1e9;
}

static void host_wait_word(work_stream stream, const uint64_t *word, uint64_t value) {
    (void)stream;
    if (*word < value)
        bench_die("a wait for something that will never happen", EDEADLK);
}

static void host_write_word(work_stream stream, uint64_t *word, uint64_t value) {
    (void)stream;
    *word = value;
}

static void host_make_sums(const struct work_check *check, work_stream stream) {
    (void)stream;
    uint64_t words = check->sample_bytes / sizeof(uint64_t);
    for (uint64_t i = 0; i < check->samples * words; i++)
        check->word_sums[i / words] += content_word(i);
}

static void check_words(const struct work_check *check, const uint64_t *sample, uint64_t number) {
    uint64_t words = check->sample_bytes / sizeof(uint64_t), sum = 0;
    if (!check->word_sums) {
        for (uint64_t k = 0; k < words; k++)
            check->totals->wrong_words += sample[k] != content_word(number * words + k);
        return;
    }
    for (uint64_t k = 0; k < words; k++)
        sum += sample[k];
    check->totals->wrong_sums += sum != check->word_sums[number];
}

static void host_check(const struct work_check *check, work_stream stream) {
    (void)stream;
    uint64_t words = check->sample_bytes / sizeof(uint64_t);
    for (uint64_t i = 0; i < check->count; i++) {
        const uint64_t *sample = (const uint64_t *)check->data + i * words;
        uint64_t number = content_sample(sample[0], words, check->samples);
        check->totals->samples++;
        if (number == UINT64_MAX) {
            check->totals->wrong_samples++;
            continue;
        }
        check_words(check, sample, number);
        *check->sum += number;
        if (check->seen)
            check->seen[number]++;
    }
}

static void host_check_epoch(const struct work_check *check, uint32_t epochs, work_stream stream) {
    (void)stream;
    for (uint64_t i = 0; i < check->samples; i++)
        check->totals->not_once += check->seen[i] != epochs;
}

static void host_hash(const struct work_hash *hash, work_stream stream) {
    (void)stream;
    for (uint64_t i = 0; i < hash->count; i++) {
        const uint8_t *sample = (const uint8_t *)hash->data + i * hash->sample_bytes;
        uint64_t sum = 0;
        for (uint64_t at = 0; at < hash->sample_bytes; at += sizeof(uint64_t)) {
            uint64_t word = 0;
            memcpy(&word, sample + at, min_u64(sizeof word, hash->sample_bytes - at));
            sum += content_hash_part(word, at / sizeof word);
        }
        hash->hashes[i * hash->stride] = sum;
    }
}

static void host_sum(const void *data, uint64_t bytes, uint64_t *sum, work_stream stream) {
    (void)stream;
    for (uint64_t i = 0; i < bytes / sizeof(uint64_t); i++)
        *sum += ((const uint64_t *)data)[i];
}

static void host_burn(uint32_t waves, work_stream stream) {
    (void)stream;
    volatile float value = 1;
    for (uint64_t i = 0; i < (uint64_t)waves * BURN_STEPS; i++)
        value = value * 0.999f + 0.001f;
}

static void host_multiply(const float *a, const float *b, float *c, uint32_t n, work_stream stream) {
    (void)stream;
    for (uint32_t row = 0; row < n; row++)
        for (uint32_t column = 0; column < n; column++) {
            float sum = 0;
            for (uint32_t k = 0; k < n; k++)
                sum += a[row * n + k] * b[k * n + column];
            c[row * n + column] = sum;
        }
}

const struct work work_host = {.kind = "host",
                               .open = host_open,
                               .join = host_nothing,
                               .free_bytes = host_free_bytes,
                               .finish = host_nothing,
                               .memory = host_memory,
                               .pinned = host_memory,
                               .pin = host_pin,
                               .stream = host_stream,
                               .copy_in = host_copy,
                               .copy_out = host_copy,
                               .event = host_event,
                               .record = host_record,
                               .wait = host_wait,
                               .wait_on = host_wait_on,
                               .seconds = host_seconds,
                               .wait_word = host_wait_word,
                               .write_word = host_write_word,
                               .make_sums = host_make_sums,
                               .check = host_check,
                               .check_epoch = host_check_epoch,
                               .hash = host_hash,
                               .sum = host_sum,
                               .burn = host_burn,
                               .multiply = host_multiply};
