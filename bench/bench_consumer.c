// One consumer: attaches, takes batches for a while or up to a number of them, and prints what it got as JSON.
// --touch reads a word of every cache line; --pause-us waits that long between batches, and --work-us computes for that
// long on a processor; the clock starts after --warm-up seconds.
#include "base/sizes.h"
#include "bench/consumer.h"
#include "bench/histogram.h"

struct run {
    struct feed_options feed;
    double seconds, warm_up;
    uint64_t most_batches, pause_us, work_us;
    bool touch;
    // Results.
    uint64_t batches, samples, bytes, first_batch_ns, start_ns, end_ns;
    uint64_t all_samples; // the warm-up's too
    double cpu_seconds;
    struct histogram next;
};

static volatile uint64_t touched;

static void touch_batch(const struct feed_batch *batch) {
    uint64_t sum = 0;
    for (uint32_t f = 0; f < batch->field_count; f++) {
        const uint8_t *data = batch->field[f].data;
        for (size_t i = 0; i < batch->field[f].bytes; i += CACHE_LINE)
            sum += data[i];
    }
    touched += sum;
}

// As long as nothing else has the processor: less of it takes longer.
static void work(uint64_t us) {
    struct timespec now;
    uint64_t end = 0, used;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        used = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        end = end ? end : used + us * 1000;
    } while (used < end);
}

static void count_batch(struct run *run, const struct feed_batch *batch) {
    run->batches++;
    run->samples += batch->count;
    for (uint32_t f = 0; f < batch->field_count; f++)
        run->bytes += batch->field[f].bytes;
}

// Takes one batch; false when the run has ended.
static bool take_batch(struct run *run, struct feed *feed, bool counted) {
    struct feed_batch batch;
    uint64_t before = bench_ns();
    int err = feed_next(feed, &batch, 60000);
    uint64_t after = bench_ns();
    if (err < 0)
        consumer_die("feed_next", feed, err);
    if (err == 0)
        return false;
    if (!run->first_batch_ns)
        run->first_batch_ns = after;
    if (run->touch)
        touch_batch(&batch);
    run->all_samples += batch.count;
    if (counted) {
        histogram_add(&run->next, after - before);
        count_batch(run, &batch);
    }
    err = feed_batch_release(feed, &batch, NULL);
    if (err < 0)
        consumer_die("feed_batch_release", feed, err);
    if (run->pause_us)
        usleep((useconds_t)run->pause_us);
    if (run->work_us)
        work(run->work_us);
    return true;
}

static void consume(struct run *run, struct feed *feed) {
    bool more = take_batch(run, feed, false);
    uint64_t warm = run->first_batch_ns + (uint64_t)(run->warm_up * 1e9);
    while (more && bench_ns() < warm)
        more = take_batch(run, feed, false);
    double cpu = bench_cpu_seconds(RUSAGE_SELF);
    run->start_ns = run->end_ns = bench_ns();
    uint64_t end = run->seconds > 0 ? run->start_ns + (uint64_t)(run->seconds * 1e9) : UINT64_MAX;
    while (more && run->batches < run->most_batches && run->end_ns < end) {
        more = take_batch(run, feed, true);
        run->end_ns = bench_ns();
    }
    run->cpu_seconds = bench_cpu_seconds(RUSAGE_SELF) - cpu;
}

static void report(const struct run *run, const struct feed_description *feed, uint64_t open_ns,
                   uint64_t opened_ns) {
    double seconds = (double)(run->end_ns - run->start_ns) / 1e9;
    double rate = seconds > 0 ? 1 / seconds : 0;
    printf(
        "{\"batches\": %llu, \"samples\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.3f, ",
        (unsigned long long)run->batches, (unsigned long long)run->samples, (unsigned long long)run->bytes,
        seconds, run->cpu_seconds);
    printf("\"all_samples\": %llu, \"all_cpu_seconds\": %.3f, ", (unsigned long long)run->all_samples,
           bench_cpu_seconds(RUSAGE_SELF));
    printf("\"batches_per_second\": %.1f, \"samples_per_second\": %.1f, \"bytes_per_second\": %.0f, ",
           (double)run->batches * rate, (double)run->samples * rate, (double)run->bytes * rate);
    printf("\"open_ms\": %.3f, \"first_batch_ms\": %.3f, ", (double)(opened_ns - open_ns) / 1e6,
           (double)(run->first_batch_ns - open_ns) / 1e6);
    printf("\"next_us\": {\"p50\": %.3f, \"p90\": %.3f, \"p99\": %.3f, \"max\": %.3f}, ",
           (double)histogram_quantile(&run->next, 0.5) / 1e3,
           (double)histogram_quantile(&run->next, 0.9) / 1e3,
           (double)histogram_quantile(&run->next, 0.99) / 1e3, (double)run->next.largest / 1e3);
    printf("\"ring_bytes\": %llu, \"slots\": %u, \"prefetch\": %u}\n", (unsigned long long)feed->ring_bytes,
           feed->slots, feed->prefetch);
}

_Noreturn static void usage(void) {
    fprintf(stderr,
            "usage: %s --socket PATH --dataset NAME [--batch-size N] [--shuffle] [--seed S] [--share NAME]\n"
            "       [--rank R --world-size W] [--wait-for K] [--prefetch P] [--ring-bytes N]\n"
            "       [--seconds T] [--batches N] [--warm-up T] [--touch] [--pause-us U] [--work-us U]\n",
            program_invocation_short_name);
    exit(2);
}

static void parse(struct run *run, int argc, char **argv) {
    static const struct option options[] = {
        CONSUMER_OPTIONS,          {"seconds", 1, NULL, 'T'}, {"warm-up", 1, NULL, 'W'},
        {"batches", 1, NULL, 'N'}, {"touch", 0, NULL, 't'},   {"pause-us", 1, NULL, 'u'},
        {"work-us", 1, NULL, 'c'}, {NULL, 0, NULL, 0},
    };
    *run = (struct run){.feed.batch_size = 256, .most_batches = UINT64_MAX};
    int letter, index = 0;
    while ((letter = getopt_long(argc, argv, "", options, &index)) != -1) {
        if (consumer_option(&run->feed, letter, options[index].name, optarg))
            continue;
        if (letter == 'T')
            run->seconds = strtod(optarg, NULL);
        else if (letter == 'W')
            run->warm_up = strtod(optarg, NULL);
        else if (letter == 'N')
            run->most_batches = bench_number("batches", optarg);
        else if (letter == 't')
            run->touch = true;
        else if (letter == 'u')
            run->pause_us = bench_number("pause-us", optarg);
        else if (letter == 'c')
            run->work_us = bench_number("work-us", optarg);
        else
            usage();
    }
    if (!run->feed.dataset || optind < argc || (run->most_batches == UINT64_MAX && !(run->seconds > 0)))
        usage();
}

int main(int argc, char **argv) {
    static struct run run;
    parse(&run, argc, argv);
    struct feed *feed;
    uint64_t open_ns = bench_ns();
    int err = feed_open(&feed, &run.feed);
    if (err < 0)
        consumer_die("feed_open", feed, err);
    uint64_t opened_ns = bench_ns();
    consume(&run, feed);
    report(&run, feed_describe(feed), open_ns, opened_ns);
    feed_close(feed);
    return 0;
}
