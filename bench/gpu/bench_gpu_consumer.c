// A consumer on a GPU: takes batches for a while, has a kernel read and check every byte of each, and prints the
// results as JSON. The CPU waits for the GPU only at the end. The data come from `bench_gen --numbered`.
//
// "begin" and "end" are printed, each as a separate object, when the clock starts (--warm-up seconds after the first
// batch) and stops, so that a caller can measure other processes in between; the last line is the result. With --ask
// the feed stays open after "end" until a line is read. --busy keeps the rest of the GPU computing; with --no-feed that
// is all it does. --streams: how many streams wait for, check and release batches in turn.
// --check sums compares the words of a sample by their sum, which takes little of the GPU; none launches no kernel.
#include "bench/gpu/busy.h"
#include "bench/gpu/options.h"
#include "bench/gpu/streams.h"
#include "bench/gpu/tally.h"
#include "bench/histogram.h"

enum check {
    CHECK_WORDS,
    CHECK_SUMS,
    CHECK_NONE,
    CHECKS
};
static const char *const check_names[CHECKS] = {"words", "sums", "none"};

struct run {
    struct feed_options feed;
    double seconds, warm_up;
    uint64_t pause_us, waves, stream_count;
    enum check check;
    bool no_feed, is_busy, asks;

    const struct work *work;
    struct streams streams;
    struct tally *tally;
    struct busy *busy;
    // Results.
    uint64_t batches, samples, bytes, first_batch_ns, start_ns, end_ns;
    double cpu_seconds, gpu_seconds;
    struct histogram next, wait, launch, release;
};

static void note(struct histogram *histogram, uint64_t *since) {
    uint64_t now = bench_ns();
    histogram_add(histogram, now - *since);
    *since = now;
}

// False when the run has ended.
static bool take_batch(struct run *run, struct feed *feed) {
    struct feed_batch batch;
    work_stream stream = streams_of(&run->streams, run->batches);
    uint64_t since = bench_ns();
    int got = feed_next(feed, &batch, 20000);
    if (got < 0)
        consumer_die("feed_next (for 20 s)", feed, got);
    if (got == 0)
        return false;
    note(&run->next, &since);
    if (!run->first_batch_ns)
        run->first_batch_ns = since;
    int err = feed_batch_wait(feed, &batch, stream);
    note(&run->wait, &since);
    if (err < 0)
        consumer_die("feed_batch_wait", feed, err);
    if (run->tally) {
        tally_batch(run->tally, feed, &batch, stream);
        note(&run->launch, &since);
    }
    err = feed_batch_release(feed, &batch, stream);
    note(&run->release, &since);
    if (err < 0)
        consumer_die("feed_batch_release", feed, err);
    run->batches++;
    run->samples += batch.count;
    for (uint32_t i = 0; i < batch.field_count; i++)
        run->bytes += batch.field[i].bytes;
    if (run->pause_us)
        usleep((useconds_t)run->pause_us);
    return true;
}

static void say(const char *event) {
    printf("{\"event\": \"%s\"}\n", event);
    fflush(stdout);
}

static void say_end(const struct run *run) {
    int letter = 0;
    say("end");
    while (run->asks && letter != EOF && letter != '\n')
        letter = getchar();
}

static void start_clock(struct run *run) {
    run->batches = run->samples = run->bytes = 0;
    run->next = run->wait = run->launch = run->release = (struct histogram){0};
    if (run->busy)
        busy_measure(run->busy, true);
    say("begin");
    run->cpu_seconds = bench_cpu_seconds(RUSAGE_SELF);
    run->start_ns = bench_ns();
}

// Bytes count from when the GPU has finished the last warm-up batch to when it has finished the very last batch.
static void consume(struct run *run, struct feed *feed) {
    work_event first = run->work->event(false), last = run->work->event(false);
    bool more = take_batch(run, feed);
    uint64_t warm = run->first_batch_ns + (uint64_t)(run->warm_up * 1e9);
    while (more && bench_ns() < warm)
        more = take_batch(run, feed);
    streams_gather(&run->streams);
    run->work->record(first, run->streams.stream[0]);
    start_clock(run);
    uint64_t end = run->start_ns + (uint64_t)(run->seconds * 1e9);
    while (more && bench_ns() < end)
        more = take_batch(run, feed);
    streams_gather(&run->streams);
    run->work->record(last, run->streams.stream[0]);
    run->end_ns = bench_ns();
    run->cpu_seconds = bench_cpu_seconds(RUSAGE_SELF) - run->cpu_seconds;
    run->work->wait(last);
    if (run->busy)
        busy_measure(run->busy, false);
    run->gpu_seconds = run->work->seconds(first, last);
    say_end(run);
}

static void burn_alone(struct run *run) {
    usleep((useconds_t)(run->warm_up * 1e6));
    start_clock(run);
    usleep((useconds_t)(run->seconds * 1e6));
    run->end_ns = bench_ns();
    busy_measure(run->busy, false);
    say_end(run);
}

// ---- Reports ------------------------------------------------------------------------------------------------

static void print_histogram(const char *name, const struct histogram *histogram) {
    printf("\"%s\": {\"p50\": %.3f, \"p99\": %.3f, \"max\": %.3f}, ", name,
           (double)histogram_quantile(histogram, 0.5) / 1e3,
           (double)histogram_quantile(histogram, 0.99) / 1e3, (double)histogram->largest / 1e3);
}

static void report_feed(const struct run *run, const struct feed_description *feed) {
    double rate = run->gpu_seconds > 0 ? 1 / run->gpu_seconds : 0;
    printf("\"batches\": %llu, \"samples\": %llu, \"bytes\": %llu, \"bytes_per_second\": %.0f, "
           "\"samples_per_second\": %.1f, ",
           (unsigned long long)run->batches, (unsigned long long)run->samples, (unsigned long long)run->bytes,
           (double)run->bytes * rate, (double)run->samples * rate);
    print_histogram("next_us", &run->next);
    print_histogram("wait_us", &run->wait);
    print_histogram("launch_us", &run->launch);
    print_histogram("release_us", &run->release);
    printf("\"ring_bytes\": %llu, \"slots\": %u, \"prefetch\": %u, \"pool_bytes\": %llu, ",
           (unsigned long long)feed->ring_bytes, feed->slots, feed->prefetch,
           (unsigned long long)feed->pool_bytes);
    printf("\"streams\": %u, \"check\": \"%s\", ", run->streams.count, check_names[run->check]);
    if (run->tally)
        tally_report(run->tally);
}

static void report_end(const struct run *run, const struct busy_result *busy) {
    if (run->is_busy)
        printf("\"waves\": %u, \"kernels\": %llu, \"kernel_us\": %.3f, \"kernel_mean_us\": %.3f, ",
               busy->waves, (unsigned long long)busy->kernels, busy->median_s * 1e6, busy->mean_s * 1e6);
    printf("\"seconds\": %.6f, \"gpu_seconds\": %.6f, \"cpu_seconds\": %.3f}\n",
           (double)(run->end_ns - run->start_ns) / 1e9, run->gpu_seconds, run->cpu_seconds);
}

_Noreturn static void usage(void) {
    fprintf(
        stderr,
        "usage: %s " GPU_CONSUMER_USAGE
        "       --seconds T [--warm-up T] [--pause-us U] [--streams N] [--check words|sums|none] [--ask]\n"
        "       [--busy [--waves N] [--no-feed]]\n",
        program_invocation_short_name);
    exit(2);
}

static enum check check_of(const char *name) {
    for (enum check check = CHECK_WORDS; check < CHECKS; check++)
        if (strcmp(name, check_names[check]) == 0)
            return check;
    usage();
}

static void parse(struct run *run, int argc, char **argv) {
    static const struct option options[] = {
        GPU_CONSUMER_OPTIONS,       {"seconds", 1, NULL, 'T'}, {"warm-up", 1, NULL, 'W'},
        {"pause-us", 1, NULL, 'u'}, {"busy", 0, NULL, 'B'},    {"waves", 1, NULL, 'v'},
        {"no-feed", 0, NULL, 'F'},  {"check", 1, NULL, 'C'},   {"ask", 0, NULL, 'A'},
        {"streams", 1, NULL, 'm'},  {NULL, 0, NULL, 0},
    };
    *run = (struct run){.feed.batch_size = 256, .feed.device = "cuda:0", .stream_count = 1};
    int letter, index = 0;
    while ((letter = getopt_long(argc, argv, "", options, &index)) != -1) {
        if (gpu_consumer_option(&run->feed, letter, options[index].name, optarg))
            continue;
        if (letter == 'T')
            run->seconds = strtod(optarg, NULL);
        else if (letter == 'W')
            run->warm_up = strtod(optarg, NULL);
        else if (letter == 'u')
            run->pause_us = bench_number("pause-us", optarg);
        else if (letter == 'v')
            run->waves = bench_number("waves", optarg);
        else if (letter == 'B')
            run->is_busy = true;
        else if (letter == 'F')
            run->no_feed = true;
        else if (letter == 'C')
            run->check = check_of(optarg);
        else if (letter == 'm')
            run->stream_count = bench_number("streams", optarg);
        else if (letter == 'A')
            run->asks = true;
        else
            usage();
    }
    if ((!run->feed.dataset && !run->no_feed) || (run->no_feed && !run->is_busy) || optind < argc ||
        !(run->seconds > 0) || run->stream_count < 1 || run->stream_count > STREAMS_MOST)
        usage();
}

static void run_feed(struct run *run) {
    struct feed *feed;
    int err = feed_open(&feed, &run->feed);
    if (err < 0)
        consumer_die("feed_open", feed, err);
    streams_open(&run->streams, run->work, (uint32_t)run->stream_count);
    if (run->check != CHECK_NONE)
        run->tally = tally_open(&run->streams, feed, run->check == CHECK_SUMS);
    if (run->is_busy) // after all that would wait for it to end
        run->busy = busy_start(run->work, (uint32_t)run->waves);
    consume(run, feed);
    struct busy_result busy = {0};
    if (run->busy)
        busy = busy_stop(run->busy);
    run->work->finish();
    printf("{");
    report_feed(run, feed_describe(feed));
    report_end(run, &busy);
    feed_close(feed);
}

int main(int argc, char **argv) {
    static struct run run;
    parse(&run, argc, argv);
    work_time_limit(run.warm_up + run.seconds + GPU_START_SECONDS);
    run.work = work_open(run.feed.device);
    if (!run.no_feed) {
        run_feed(&run);
        return run.tally ? tally_close(run.tally) : 0;
    }
    run.busy = busy_start(run.work, (uint32_t)run.waves);
    burn_alone(&run);
    struct busy_result busy = busy_stop(run.busy);
    printf("{");
    report_end(&run, &busy);
    return 0;
}
