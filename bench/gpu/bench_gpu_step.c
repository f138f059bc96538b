// A loop shaped like training, several ways in turn, in one process: a step reads every byte of a batch and then
// multiplies square matrices for about --factor times as long as the batch's copy takes.
//   compute     the batch is on the GPU already, always the same: what a step costs
//   places      each step reads another of as many batches as feedd's pool may have, which no cache holds
//   words       compute between a wait for a word that is there already and the write of another, as libfeed has them
//   feed        batches from feedd, waited for on the stream, and released after every stream
//   feed_on_stream  the same, but released on the stream
//   feed_nowait that, and the stream does not wait
//   sequential  copied from pinned memory on the same stream, then computed with
//   streams     copied on a separate stream into one of two places, with events between the streams
// At most AHEAD steps are queued. While another way is measured, the feed is full and idle.
#include "bench/gpu/options.h"

#define AHEAD       4u
#define ROUNDS_MOST 64u
#define STAGED      16u // batches in pinned memory, as a loader would have them in many places, and of `places`

enum way {
    COMPUTE,
    PLACES,
    WORDS,
    FEED,
    FEED_ON_STREAM,
    FEED_NOWAIT,
    SEQUENTIAL,
    STREAMS,
    WAYS
};
static const char *const way_names[WAYS] = {"compute",        "places",      "words",      "feed",
                                            "feed_on_stream", "feed_nowait", "sequential", "streams"};

struct run {
    struct feed_options feed;
    double seconds, factor;
    uint64_t rounds, matrix;
    const struct work *work;
    work_stream stream, copying;
    work_event queued[AHEAD], copied[2], used[2];
    uint64_t batch_bytes, repeats;
    uint8_t *staged;
    void *places[STAGED];   // on the GPU; copies go to the first two
    uint64_t *there, *left; // words on the GPU and in pinned memory
    uint64_t *sum;
    float *a, *b, *c;
    double copy_s, multiply_s;
    double steps_s[WAYS][ROUNDS_MOST];
};

static void compute(const struct run *run, const void *data, uint64_t bytes) {
    run->work->sum(data, bytes, run->sum, run->stream);
    for (uint64_t i = 0; i < run->repeats; i++)
        run->work->multiply(run->a, run->b, run->c, (uint32_t)run->matrix, run->stream);
}

static const void *staged(const struct run *run, uint64_t step) {
    return run->staged + step % STAGED * run->batch_bytes;
}

static void step_feed(struct run *run, struct feed *feed, bool waits, void *release_on) {
    struct feed_batch batch;
    int got = feed_next(feed, &batch, 20000);
    if (got != 1)
        consumer_die("feed_next (for 20 s)", feed, got);
    int err = waits ? feed_batch_wait(feed, &batch, run->stream) : 0;
    if (!err) {
        compute(run, batch.field[0].data, batch.field[0].bytes);
        err = feed_batch_release(feed, &batch, release_on);
    }
    if (err)
        consumer_die("a batch", feed, err);
}

static void step_words(const struct run *run, uint64_t step) {
    run->work->wait_word(run->stream, run->there, 0);
    compute(run, run->places[0], run->batch_bytes);
    run->work->write_word(run->stream, run->left, step);
}

static void step_streams(const struct run *run, uint64_t step) {
    uint64_t place = step % 2;
    if (step >= 2)
        run->work->wait_on(run->copying, run->used[place]);
    run->work->copy_in(run->places[place], staged(run, step), run->batch_bytes, run->copying);
    run->work->record(run->copied[place], run->copying);
    run->work->wait_on(run->stream, run->copied[place]);
    compute(run, run->places[place], run->batch_bytes);
    run->work->record(run->used[place], run->stream);
}

static void step_once(struct run *run, enum way way, struct feed *feed, uint64_t step) {
    switch (way) {
    case FEED:
        step_feed(run, feed, true, FEED_EVERY_STREAM);
        break;
    case FEED_ON_STREAM:
    case FEED_NOWAIT:
        step_feed(run, feed, way == FEED_ON_STREAM, run->stream);
        break;
    case WORDS:
        step_words(run, step);
        break;
    case STREAMS:
        step_streams(run, step);
        break;
    case PLACES:
        compute(run, run->places[step % STAGED], run->batch_bytes);
        break;
    case SEQUENTIAL:
        run->work->copy_in(run->places[0], staged(run, step), run->batch_bytes, run->stream);
        compute(run, run->places[0], run->batch_bytes);
        break;
    default:
        compute(run, run->places[0], run->batch_bytes);
    }
}

// Seconds per step.
static double measure(struct run *run, enum way way, struct feed *feed, double seconds) {
    uint64_t began = bench_ns(), end = began + (uint64_t)(seconds * 1e9), steps = 0;
    for (; bench_ns() < end || steps < AHEAD; steps++) {
        work_event oldest = run->queued[steps % AHEAD];
        if (steps >= AHEAD)
            run->work->wait(oldest);
        step_once(run, way, feed, steps);
        run->work->record(oldest, run->stream);
    }
    run->work->finish();
    return (double)(bench_ns() - began) / 1e9 / (double)steps;
}

// ---- Setting up ---------------------------------------------------------------------------------------------

static float *matrix(const struct run *run) {
    uint64_t bytes = run->matrix * run->matrix * sizeof(float);
    float *values = run->work->pinned(bytes), *on_gpu = run->work->memory(bytes);
    for (uint64_t i = 0; i < run->matrix * run->matrix; i++)
        values[i] = (float)(i % 17) / 17;
    run->work->copy_in(on_gpu, values, bytes, run->stream);
    run->work->finish();
    return on_gpu;
}

static void set_up(struct run *run) {
    const struct work *work = run->work;
    run->stream = work->stream(true);
    run->copying = work->stream(false);
    for (uint32_t i = 0; i < AHEAD; i++)
        run->queued[i] = work->event(false);
    for (uint32_t i = 0; i < 2; i++) {
        run->copied[i] = work->event(false);
        run->used[i] = work->event(false);
    }
    for (uint32_t i = 0; i < STAGED; i++)
        run->places[i] = work->memory(run->batch_bytes);
    run->there = work->memory(sizeof *run->there);
    run->left = work->pinned(sizeof *run->left);
    run->staged = work->pinned(STAGED * run->batch_bytes);
    memset(run->staged, 1, STAGED * run->batch_bytes);
    run->sum = work->memory(sizeof *run->sum);
    run->a = matrix(run);
    run->b = matrix(run);
    run->c = matrix(run);
}

static double gpu_time(const struct run *run, bool copies) {
    enum {
        TIMES = 20
    };
    work_event from = run->queued[0], to = run->queued[1];
    double seconds = 0;
    for (int round = 0; round < 5; round++) { // in the first rounds the GPU's clock is still low
        run->work->record(from, run->stream);
        for (uint64_t i = 0; i < TIMES; i++)
            if (copies)
                run->work->copy_in(run->places[0], staged(run, i), run->batch_bytes, run->stream);
            else
                run->work->multiply(run->a, run->b, run->c, (uint32_t)run->matrix, run->stream);
        run->work->record(to, run->stream);
        run->work->wait(to);
        seconds = run->work->seconds(from, to) / TIMES;
    }
    return seconds;
}

static void calibrate(struct run *run) {
    run->multiply_s = gpu_time(run, false);
    run->copy_s = gpu_time(run, true);
    double repeats = run->factor * run->copy_s / run->multiply_s + 0.5;
    run->repeats = repeats < 1 ? 1 : repeats > 1000 ? 1000 : (uint64_t)repeats;
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void report(struct run *run, const struct feed_description *feed) {
    printf("{\"copy_us\": %.3f, \"multiply_us\": %.3f, \"repeats\": %llu, \"matrix\": %llu, "
           "\"ring_bytes\": %llu, \"batch_bytes\": %llu",
           run->copy_s * 1e6, run->multiply_s * 1e6, (unsigned long long)run->repeats,
           (unsigned long long)run->matrix, (unsigned long long)feed->ring_bytes,
           (unsigned long long)run->batch_bytes);
    for (int way = 0; way < WAYS; way++) {
        qsort(run->steps_s[way], run->rounds, sizeof(double), by_size);
        printf(", \"%s_us\": %.3f", way_names[way], run->steps_s[way][run->rounds / 2] * 1e6);
    }
    puts("}");
}

_Noreturn static void usage(void) {
    fprintf(stderr,
            "usage: %s " GPU_CONSUMER_USAGE
            "       [--seconds T (of each way in a round)] [--rounds N] [--matrix N] [--factor F]\n",
            program_invocation_short_name);
    exit(2);
}

static void parse(struct run *run, int argc, char **argv) {
    static const struct option options[] = {
        GPU_CONSUMER_OPTIONS,     {"seconds", 1, NULL, 'T'}, {"rounds", 1, NULL, 'N'},
        {"matrix", 1, NULL, 'M'}, {"factor", 1, NULL, 'F'},  {NULL, 0, NULL, 0},
    };
    *run = (struct run){.feed = {.batch_size = 1024, .device = "cuda:0"},
                        .seconds = 0.5,
                        .factor = 2,
                        .rounds = 5,
                        .matrix = 512};
    int letter, index = 0;
    while ((letter = getopt_long(argc, argv, "", options, &index)) != -1) {
        if (gpu_consumer_option(&run->feed, letter, options[index].name, optarg))
            continue;
        if (letter == 'T')
            run->seconds = strtod(optarg, NULL);
        else if (letter == 'F')
            run->factor = strtod(optarg, NULL);
        else if (letter == 'N')
            run->rounds = bench_number("rounds", optarg);
        else if (letter == 'M')
            run->matrix = bench_number("matrix", optarg);
        else
            usage();
    }
    if (!run->feed.dataset || optind < argc || run->rounds < 1 || run->rounds > ROUNDS_MOST ||
        run->matrix < 32 || run->matrix % 32 || !(run->seconds > 0) || !(run->factor > 0))
        usage();
}

int main(int argc, char **argv) {
    static struct run run;
    struct feed *feed;
    parse(&run, argc, argv);
    run.feed.drop_last = true; // every step is as large as any other
    work_time_limit(GPU_START_SECONDS + (double)run.rounds * WAYS * run.seconds);
    run.work = work_open(run.feed.device);
    int err = feed_open(&feed, &run.feed);
    if (err < 0)
        consumer_die("feed_open", feed, err);
    run.batch_bytes = feed_describe(feed)->field[0].bytes;
    set_up(&run);
    calibrate(&run);
    for (int way = 0; way < WAYS; way++)
        measure(&run, way, feed, 0.1);
    for (uint64_t round = 0; round < run.rounds; round++)
        for (int way = 0; way < WAYS; way++)
            run.steps_s[way][round] = measure(&run, way, feed, run.seconds);
    report(&run, feed_describe(feed));
    feed_close(feed);
    return 0;
}
