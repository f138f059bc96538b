// Connect to first batch, many times: prints the least, the median and the 99th percentile as JSON.
// With --share every round joins that feed; without it every round creates a new one, with a new seed.
#include "bench/consumer.h"
#include "bench/histogram.h"

struct rounds {
    uint64_t count, pause_us;
    uint64_t least_ns; // to the first batch
    struct histogram open, first;
};

static void attach_once(const struct feed_options *options, struct rounds *rounds) {
    struct feed *feed;
    struct feed_batch batch;
    uint64_t start = bench_ns();
    int err = feed_open(&feed, options);
    if (err < 0)
        consumer_die("feed_open", feed, err);
    uint64_t opened = bench_ns();
    err = feed_next(feed, &batch, 60000);
    uint64_t first = bench_ns();
    if (err != 1)
        consumer_die("feed_next", feed, err);
    histogram_add(&rounds->open, opened - start);
    histogram_add(&rounds->first, first - start);
    if (first - start < rounds->least_ns)
        rounds->least_ns = first - start;
    feed_close(feed);
}

static void report(const struct rounds *rounds) {
    printf("{\"rounds\": %llu, \"open_ms\": {\"p50\": %.3f, \"p99\": %.3f}, ",
           (unsigned long long)rounds->count, (double)histogram_quantile(&rounds->open, 0.5) / 1e6,
           (double)histogram_quantile(&rounds->open, 0.99) / 1e6);
    printf("\"first_batch_ms\": {\"min\": %.3f, \"p50\": %.3f, \"p99\": %.3f, \"max\": %.3f}}\n",
           (double)rounds->least_ns / 1e6, (double)histogram_quantile(&rounds->first, 0.5) / 1e6,
           (double)histogram_quantile(&rounds->first, 0.99) / 1e6, (double)rounds->first.largest / 1e6);
}

_Noreturn static void usage(void) {
    fprintf(stderr,
            "usage: %s --socket PATH --dataset NAME [--batch-size N] [--shuffle] [--seed S] [--share NAME]\n"
            "       [--rounds N] [--pause-us U]\n",
            program_invocation_short_name);
    exit(2);
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        CONSUMER_OPTIONS,
        {"rounds", 1, NULL, 'N'},
        {"pause-us", 1, NULL, 'u'},
        {NULL, 0, NULL, 0},
    };
    static struct rounds rounds = {.count = 100, .pause_us = 2000, .least_ns = UINT64_MAX};
    struct feed_options feed = {.batch_size = 256};
    int letter, index = 0;
    while ((letter = getopt_long(argc, argv, "", options, &index)) != -1) {
        if (consumer_option(&feed, letter, options[index].name, optarg))
            continue;
        if (letter == 'N')
            rounds.count = bench_number("rounds", optarg);
        else if (letter == 'u')
            rounds.pause_us = bench_number("pause-us", optarg);
        else
            usage();
    }
    if (!feed.dataset || !rounds.count || optind < argc)
        usage();
    for (uint64_t i = 0; i < rounds.count; i++) {
        attach_once(&feed, &rounds);
        feed.seed += feed.share ? 0 : 1;
        usleep((useconds_t)rounds.pause_us);
    }
    report(&rounds);
    return 0;
}
