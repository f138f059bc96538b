// A consumer on a simulated GPU whose streams are slow: it queues kernels that look at a batch only after a while,
// releases the batch on its stream and takes the next one, like a training loop whose GPU has fallen behind. If a
// kernel sees bytes other than those of its batch's samples, the slot was filled again too early.
//
// The dataset is one of data.add_records: the bytes of a sample follow from its number. With --dataset=NAME it is
// another one, whose first field is ragged and has bytes that all are the sample's number, modulo 251. Prints, after
// {"event": "attached"}: {"event": "end", "batches": taken, "queued": kernels, "kernels": those that had run when
// feed_close returned, "wrong": those that saw other bytes}
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/sizes.h"
#include "client/lib/handle.h"
#include "gpu/gpu_host.h"

#define STREAMS_MOST 8u
#define HELD_MOST    64u

struct late {
    struct feed_options options;
    uint32_t streams, hold;
    uint64_t slow_us, batches;
    bool pairs;         // a batch is used on two streams, of which one waits for the other and releases it
    bool leave_streams; // to feed_close, which has to wait for what is queued
    struct feed *feed;
    gpu_stream stream[STREAMS_MOST];
    struct feed_batch held[HELD_MOST];
    uint32_t held_stream[HELD_MOST], held_count;
    uint64_t taken, queued, random;
    struct error error;
};

static _Atomic uint64_t kernels, wrong;

// xorshift64*: the same numbers in every run.
static uint64_t roll(struct late *late, uint64_t sides) {
    late->random ^= late->random >> 12;
    late->random ^= late->random << 25;
    late->random ^= late->random >> 27;
    return late->random * UINT64_C(0x2545f4914f6cdd1d) % sides;
}

// ---- Kernels -----------------------------------------------------------------------------------------------

struct kernel {
    const uint8_t *data;
    const int64_t *offsets; // of a ragged field, else NULL
    uint64_t count, sample_bytes, slow_us;
    _Atomic bool *after; // another kernel of the batch that has to be over
    _Atomic bool *over;  // to say that this one is
    int64_t samples[];
};

static void nap_us(uint64_t microseconds) {
    struct timespec time = {.tv_sec = (time_t)(microseconds / 1000000),
                            .tv_nsec = (long)(microseconds % 1000000 * 1000)};
    nanosleep(&time, NULL);
}

// As data.sample_bytes.
static bool is_sample(const uint8_t *bytes, uint64_t size, uint64_t number) {
    if (memcmp(bytes, &number, sizeof number) != 0)
        return false;
    for (uint64_t place = 0; place + 8 < size; place++)
        if (bytes[8 + place] != (uint8_t)(number * 31 + place * 7))
            return false;
    return true;
}

static bool is_ragged_sample(const struct kernel *kernel, uint64_t i) {
    for (int64_t at = kernel->offsets[i]; at < kernel->offsets[i + 1]; at++)
        if (kernel->data[at] != (uint8_t)(kernel->samples[i] % 251))
            return false;
    return kernel->offsets[i] <= kernel->offsets[i + 1];
}

static bool is_whole(const struct kernel *kernel) {
    for (uint64_t i = 0; i < kernel->count; i++)
        if (kernel->offsets ? !is_ragged_sample(kernel, i)
                            : !is_sample(kernel->data + i * kernel->sample_bytes, kernel->sample_bytes,
                                         (uint64_t)kernel->samples[i]))
            return false;
    return true;
}

static void run_kernel(void *argument) {
    struct kernel *kernel = argument;
    bool whole = is_whole(kernel);
    nap_us(kernel->slow_us);
    whole &= is_whole(kernel);
    atomic_fetch_add(&wrong, !whole);
    atomic_fetch_add(&kernels, 1);
    if (kernel->after) {
        while (!atomic_load(kernel->after))
            nap_us(50);
        free((void *)kernel->after);
    }
    if (kernel->over)
        atomic_store(kernel->over, true);
    free(kernel);
}

// ---- Batches -----------------------------------------------------------------------------------------------

static int queue_kernel(struct late *late, const struct feed_batch *batch, uint32_t stream,
                        _Atomic bool *after, _Atomic bool *over) {
    struct kernel *kernel = calloc(1, sizeof *kernel + batch->count * sizeof kernel->samples[0]);
    if (!kernel)
        return error_set(&late->error, -ENOMEM, "out of memory");
    kernel->data = batch->field[0].data;
    kernel->offsets = batch->field[0].ragged ? batch->field[0].offsets : NULL;
    kernel->count = batch->count;
    kernel->sample_bytes = batch->count ? batch->field[0].bytes / batch->count : 0;
    kernel->slow_us = late->slow_us ? roll(late, late->slow_us) : 0;
    kernel->after = after;
    kernel->over = over;
    for (uint64_t i = 0; i < batch->count; i++)
        kernel->samples[i] = feed_batch_sample(late->feed, batch, i);
    late->queued++;
    int err = feed_batch_wait(late->feed, batch, late->stream[stream]);
    if (!err)
        err = gpu_host_stream_call(late->feed->gpu, late->stream[stream], run_kernel, kernel, &late->error);
    return err;
}

static int use(struct late *late, const struct feed_batch *batch, uint32_t stream) {
    _Atomic bool *over = NULL;
    int err = 0;
    if (late->pairs) {
        over = calloc(1, sizeof *over);
        err = over ? queue_kernel(late, batch, (stream + 1) % late->streams, NULL, over) : -ENOMEM;
    }
    return err ? err : queue_kernel(late, batch, stream, over, NULL);
}

static int release(struct late *late, uint32_t place) {
    int err = feed_batch_release(late->feed, &late->held[place], late->stream[late->held_stream[place]]);
    late->held_count--;
    late->held[place] = late->held[late->held_count];
    late->held_stream[place] = late->held_stream[late->held_count];
    return err;
}

static int run(struct late *late) {
    int err = 0;
    while (!err && (!late->batches || late->taken < late->batches)) {
        struct feed_batch *batch = &late->held[late->held_count];
        int got = feed_next(late->feed, batch, 20000);
        if (got != 1)
            return got;
        uint32_t stream = (uint32_t)(late->taken++ % late->streams);
        late->held_stream[late->held_count++] = stream;
        err = use(late, batch, stream);
        // In any order.
        while (!err && late->held_count > late->hold)
            err = release(late, (uint32_t)roll(late, late->held_count));
    }
    return err;
}

// ---- The whole ---------------------------------------------------------------------------------------------

static int start(struct late *late) {
    int err = feed_open(&late->feed, &late->options);
    if (!late->feed)
        return -ENOMEM;
    if (!err)
        late->hold = (uint32_t)min_u64(late->hold, feed_describe(late->feed)->prefetch - 1);
    for (uint32_t i = 0; !err && i < late->streams; i++)
        err = gpu_stream_create(late->feed->gpu, &late->stream[i], &late->error);
    return err;
}

static void finish(struct late *late) {
    for (uint32_t i = 0; late->feed && !late->leave_streams && i < late->streams; i++)
        if (late->stream[i])
            gpu_stream_destroy(late->feed->gpu, late->stream[i]);
    feed_close(late->feed);
}

static uint64_t number_of(const char *argument, const char *name, uint64_t otherwise) {
    size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 ? strtoull(argument + length, NULL, 0) : otherwise;
}

static void parse(struct late *late, const char *argument) {
    struct feed_options *options = &late->options;
    options->batch_size = (uint32_t)number_of(argument, "--batch-size=", options->batch_size);
    options->epochs = number_of(argument, "--epochs=", options->epochs);
    options->seed = number_of(argument, "--seed=", options->seed);
    options->prefetch = (uint32_t)number_of(argument, "--prefetch=", options->prefetch);
    options->wait_for = (uint32_t)number_of(argument, "--wait-for=", options->wait_for);
    options->max_lag_s = (uint32_t)number_of(argument, "--max-lag=", options->max_lag_s);
    late->streams = (uint32_t)number_of(argument, "--streams=", late->streams);
    late->hold = (uint32_t)number_of(argument, "--hold=", late->hold);
    late->slow_us = number_of(argument, "--slow-us=", late->slow_us);
    late->batches = number_of(argument, "--batches=", late->batches);
    options->shuffle |= strcmp(argument, "--shuffle") == 0;
    late->pairs |= strcmp(argument, "--pairs") == 0;
    late->leave_streams |= strcmp(argument, "--leave-streams") == 0;
    if (strncmp(argument, "--device=", 9) == 0)
        options->device = argument + 9;
    if (strncmp(argument, "--dataset=", 10) == 0)
        options->dataset = argument + 10;
    if (strncmp(argument, "--share=", 8) == 0)
        options->share = argument + 8;
}

int main(int argc, char **argv) {
    static struct late late = {
        .streams = 1, .random = 1, .options = {.dataset = "numbers", .device = "host:0"}};
    for (int i = 1; i < argc; i++)
        parse(&late, argv[i]);
    if (late.streams < 1 || late.streams > STREAMS_MOST || late.hold >= HELD_MOST)
        return 2;
    int err = start(&late);
    if (!err) {
        puts("{\"event\": \"attached\"}");
        fflush(stdout);
        err = run(&late);
    }
    if (err)
        fprintf(stderr, "streams: %s; %s\n", feed_strerror(late.feed), late.error.text);
    finish(&late);
    printf("{\"event\": \"end\", \"batches\": %lu, \"queued\": %lu, \"kernels\": %lu, \"wrong\": %lu}\n",
           late.taken, late.queued, atomic_load(&kernels), atomic_load(&wrong));
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
