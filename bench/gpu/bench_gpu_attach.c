// Attaches once to a feed on a GPU, from a process that already uses CUDA: how long feed_open took, when the first
// batch was there, and how much GPU memory that took besides the pool. With --hold it keeps the feed until its input
// ends.
#include "bench/gpu/options.h"

_Noreturn static void usage(void) {
    fprintf(stderr, "usage: %s " GPU_CONSUMER_USAGE "       [--hold]\n", program_invocation_short_name);
    exit(2);
}

static void take_first(struct feed *feed, work_stream stream) {
    struct feed_batch batch;
    int got = feed_next(feed, &batch, 20000);
    if (got != 1)
        consumer_die("feed_next (for 20 s)", feed, got);
    int err = feed_batch_wait(feed, &batch, stream);
    if (!err)
        err = feed_batch_release(feed, &batch, stream);
    if (err < 0)
        consumer_die("a first batch", feed, err);
}

static void hold(void) {
    char byte;
    alarm(0); // the parent ends it
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
}

static void attach(const struct feed_options *options, bool holds) {
    const struct work *work = work_open(options->device);
    work_stream stream = work->stream(true);
    uint64_t free_before = work->free_bytes(), began = bench_ns();
    struct feed *feed;
    int err = feed_open(&feed, options);
    uint64_t opened = bench_ns();
    if (err < 0)
        consumer_die("feed_open", feed, err);
    take_first(feed, stream);
    uint64_t first = bench_ns();
    work->finish();
    const struct feed_description *description = feed_describe(feed);
    long long taken = (long long)(free_before - work->free_bytes()) - (long long)description->pool_bytes;
    printf("{\"open_ms\": %.3f, \"first_batch_ms\": %.3f, \"taken_bytes\": %lld, \"pool_bytes\": %llu, "
           "\"ring_bytes\": %llu}\n",
           (double)(opened - began) / 1e6, (double)(first - began) / 1e6, taken,
           (unsigned long long)description->pool_bytes, (unsigned long long)description->ring_bytes);
    fflush(stdout);
    if (holds)
        hold();
    feed_close(feed);
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        GPU_CONSUMER_OPTIONS,
        {"hold", 0, NULL, 'H'},
        {NULL, 0, NULL, 0},
    };
    struct feed_options feed = {.batch_size = 256, .device = "cuda:0"};
    bool holds = false;
    int letter, index = 0;
    while ((letter = getopt_long(argc, argv, "", options, &index)) != -1) {
        if (gpu_consumer_option(&feed, letter, options[index].name, optarg))
            continue;
        if (letter != 'H')
            usage();
        holds = true;
    }
    if (!feed.dataset || optind < argc)
        usage();
    work_time_limit(GPU_START_SECONDS);
    attach(&feed, holds);
    return 0;
}
