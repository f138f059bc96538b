// Takes whole epochs on a GPU and records what arrived: for every sample its number, from the order, and a hash of each
// field, computed on the GPU from the delivered bytes. Writes rows of 64-bit words to --output: epoch, sample, one hash
// per field. verify.py compares them with the files. Work is queued as in a training process: the batch is released on
// the stream before the CPU knows its hashes.
#include "bench/gpu/options.h"

#define IN_FLIGHT 8u // batches whose hashes are on their way

struct place {
    work_event done;
    uint64_t *hashes; // on the GPU
    uint64_t *copied;
    uint64_t *rows;
    uint64_t count;
};

struct run {
    struct feed_options feed;
    const char *output;
    uint64_t batches_most;
    const struct work *work;
    work_stream stream;
    uint32_t fields;
    FILE *file;
    struct place places[IN_FLIGHT];
    uint64_t batches, samples;
};

static void open_places(struct run *run, const struct feed_description *description) {
    uint64_t hash_bytes = run->feed.batch_size * 8ull * description->field_count;
    run->fields = description->field_count;
    for (uint32_t i = 0; i < IN_FLIGHT; i++) {
        struct place *place = &run->places[i];
        place->done = run->work->event(false);
        place->hashes = run->work->memory(hash_bytes);
        place->copied = run->work->pinned(hash_bytes);
        place->rows = malloc(hash_bytes + 16ull * run->feed.batch_size);
        if (!place->rows)
            bench_die("memory", ENOMEM);
    }
}

// Waits for what was queued there and writes it to the file.
static void flush_place(struct run *run, struct place *place) {
    uint64_t width = 2 + run->fields;
    if (!place->count)
        return;
    run->work->wait(place->done);
    for (uint64_t i = 0; i < place->count; i++)
        memcpy(&place->rows[i * width + 2], &place->copied[i * run->fields], 8ull * run->fields);
    if (fwrite(place->rows, 8 * width, place->count, run->file) != place->count)
        bench_die(run->output, errno);
    place->count = 0;
}

static void note_order(const struct run *run, struct feed *feed, const struct feed_batch *batch,
                       struct place *place) {
    uint64_t width = 2 + run->fields;
    place->count = batch->count;
    for (uint64_t i = 0; i < batch->count; i++) {
        int64_t sample = feed_batch_sample(feed, batch, i);
        if (sample < 0)
            consumer_die("feed_batch_sample", feed, (int)sample);
        place->rows[i * width] = batch->epoch;
        place->rows[i * width + 1] = (uint64_t)sample;
    }
}

static void hash_batch(struct run *run, struct feed *feed, const struct feed_batch *batch) {
    struct place *place = &run->places[run->batches % IN_FLIGHT];
    flush_place(run, place);
    note_order(run, feed, batch, place);
    int err = feed_batch_wait(feed, batch, run->stream);
    if (err < 0)
        consumer_die("feed_batch_wait", feed, err);
    for (uint32_t i = 0; i < batch->field_count; i++) {
        const struct feed_array *array = &batch->field[i];
        struct work_hash hash = {array->data, batch->count, batch->count ? array->bytes / batch->count : 0,
                                 place->hashes + i, run->fields};
        run->work->hash(&hash, run->stream);
    }
    err = feed_batch_release(feed, batch, run->stream);
    if (err < 0)
        consumer_die("feed_batch_release", feed, err);
    run->work->copy_out(place->copied, place->hashes, batch->count * 8ull * run->fields, run->stream);
    run->work->record(place->done, run->stream);
    run->batches++;
    run->samples += batch->count;
}

_Noreturn static void usage(void) {
    fprintf(stderr, "usage: %s " GPU_CONSUMER_USAGE "       --output FILE [--epochs N] [--batches N]\n",
            program_invocation_short_name);
    exit(2);
}

static void parse(struct run *run, int argc, char **argv) {
    static const struct option options[] = {
        GPU_CONSUMER_OPTIONS,      {"output", 1, NULL, 'o'}, {"epochs", 1, NULL, 'E'},
        {"batches", 1, NULL, 'N'}, {NULL, 0, NULL, 0},
    };
    *run = (struct run){.feed = {.batch_size = 256, .device = "cuda:0", .epochs = 1},
                        .batches_most = UINT64_MAX};
    int letter, index = 0;
    while ((letter = getopt_long(argc, argv, "", options, &index)) != -1) {
        if (gpu_consumer_option(&run->feed, letter, options[index].name, optarg))
            continue;
        if (letter == 'o')
            run->output = optarg;
        else if (letter == 'E')
            run->feed.epochs = bench_number("epochs", optarg);
        else if (letter == 'N')
            run->batches_most = bench_number("batches", optarg);
        else
            usage();
    }
    if (!run->feed.dataset || !run->output || optind < argc)
        usage();
}

int main(int argc, char **argv) {
    static struct run run;
    struct feed *feed;
    struct feed_batch batch;
    parse(&run, argc, argv);
    work_time_limit(2 * GPU_START_SECONDS);
    run.work = work_open(run.feed.device);
    run.stream = run.work->stream(true);
    run.file = fopen(run.output, "we");
    if (!run.file)
        bench_die(run.output, errno);
    int got = feed_open(&feed, &run.feed);
    if (got < 0)
        consumer_die("feed_open", feed, got);
    open_places(&run, feed_describe(feed));
    while (run.batches < run.batches_most && (got = feed_next(feed, &batch, 20000)) == 1)
        hash_batch(&run, feed, &batch);
    if (got < 0)
        consumer_die("feed_next (for 20 s)", feed, got);
    for (uint32_t i = 0; i < IN_FLIGHT; i++)
        flush_place(&run, &run.places[(run.batches + i) % IN_FLIGHT]);
    if (fclose(run.file) != 0)
        bench_die(run.output, errno);
    printf("{\"batches\": %llu, \"samples\": %llu, \"fields\": %u}\n", (unsigned long long)run.batches,
           (unsigned long long)run.samples, run.fields);
    feed_close(feed);
    return 0;
}
