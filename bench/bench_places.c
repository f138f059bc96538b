// How fast the supervisor plans batches of samples that differ in size (daemon/supervisor/feeds/batch_places.h), in one
// thread: bench_places [--samples 600000] [--batch 256] [--least 100] [--most 3000] [--batches 100000] [--replace]
// [--sequential]. The samples lie in an index like that of tar shards, in random order or one after another; with
// --replace, bad ones would be replaced. It prints a line of JSON with medians of five rounds: thousands of batches per
// CPU second, nanoseconds per sample with the lowest and the highest round, and how many of these nanoseconds the order
// takes, looked up for a whole batch.
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/sizes.h"
#include "bench/bench.h"
#include "daemon/dataset/size_table.h"
#include "daemon/supervisor/feeds/batch_places.h"
#include "shm/ring_make.h"
#include "shm/ring_supervisor.h"

#define ROUNDS 5u
#define SLOTS  64u
#define SEED   7u

struct options {
    uint64_t samples, batch, least, most, batches;
    bool replaces, sequential;
};

struct bench {
    struct options options;
    struct dataset dataset;
    struct dataset_layout *layout;
    struct ring ring;
    struct batch_places *places;
    uint64_t at; // where the next batch begins
    uint64_t epoch;
    uint64_t check; // keeps the work from being left out
};

static double thread_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int by_size(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// ---- Making what is planned --------------------------------------------------------------------------------

// In memory of the same kind as the daemon's.
static const uint8_t *make_index(const struct options *options) {
    const size_t bytes = options->samples * sizeof(struct index_extent);
    AUTO_CLOSE int fd = memfd_create("bench-index", MFD_CLOEXEC);
    uint64_t random = 1, offset = 0;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        bench_die("memfd", errno);
    struct index_extent *extents = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (extents == MAP_FAILED)
        bench_die("mmap", errno);
    for (uint64_t i = 0; i < options->samples; i++) {
        const uint64_t size = options->least + bench_mix(&random) % (options->most - options->least + 1);
        extents[i] = (struct index_extent){.offset = offset, .bytes = (uint32_t)size};
        offset += align_up(size, 512) + 512;
    }
    return (const uint8_t *)extents;
}

static void make_dataset(struct bench *bench) {
    struct dataset_layout *layout = bench->layout = calloc(1, sizeof *layout + sizeof layout->files[0]);
    if (!layout)
        bench_die("memory", ENOMEM);
    layout->samples = bench->options.samples;
    layout->field_count = layout->stream_count = layout->file_count = layout->column_count = 1;
    layout->index_bytes = bench->options.samples * sizeof(struct index_extent);
    layout->fields[0] = (struct ring_field){.name = "x", .dtype = DTYPE_U8, .dimensions = 1, .ragged = 1};
    layout->columns[0] = (struct dataset_column){.kind = COLUMN_EXTENTS, .bytes = bench->options.most};
    bench->dataset = (struct dataset){.layout = layout, .index = make_index(&bench->options), .list_fd = -1};
    bench->dataset.size_tables[0] =
        size_table_make(layout->columns, bench->dataset.index, bench->options.samples);
}

static void make_ring(struct bench *bench) {
    const struct options *options = &bench->options;
    struct error error = {0};
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    struct ring_plan plan = {.slot_count = SLOTS,
                             .batch_size = (uint32_t)options->batch,
                             .field_count = 1,
                             .samples = options->samples,
                             .seed = SEED,
                             .world_size = 1,
                             .order_version = options->sequential ? ORDER_SEQUENTIAL : ORDER_FEISTEL_1,
                             .ragged_mean = (options->least + options->most) / 2,
                             .ragged_usual = 1,
                             .ragged_most = options->batch * options->most,
                             .replaces = options->replaces,
                             .fields = {bench->layout->fields[0]}};
    if (ring_plan(&plan, &error) < 0 || ring_create(&plan, &fd, &read_fd, &error) < 0 ||
        ring_allocate_control(&plan, fd, &error) < 0 ||
        ring_map(&bench->ring, fd, RING_CONTROL, &error) < 0 || ring_supervise(&bench->ring, &error) < 0)
        bench_die(error.text, error.code);
    const struct feed_shape shape = {.dataset = &bench->dataset};
    if (batch_places_open(&shape, &bench->ring, &bench->places, &error) < 0)
        bench_die(error.text, error.code);
}

// ---- Measuring ---------------------------------------------------------------------------------------------

typedef void plan_batch(struct bench *bench, uint64_t number);

static void plan_places(struct bench *bench, uint64_t number) {
    const struct batch_place place = {
        .epoch = bench->epoch, .first_position = bench->at, .count = bench->options.batch};
    bench->check += batch_places_compute(bench->places, &bench->ring, (uint32_t)(number % SLOTS), &place);
}

static void plan_order(struct bench *bench, uint64_t number) {
    static struct order order;
    static uint64_t samples[CHUNK_MAX_SAMPLES];
    if (number == 0)
        order_init(&order, (enum order_version)bench->ring.header->order_version, bench->options.samples,
                   SEED, bench->epoch);
    order_samples(&order, bench->at, (uint32_t)bench->options.batch, samples);
    bench->check += samples[number % bench->options.batch];
}

// Nanoseconds for each sample, in an epoch of its own.
static double measure(struct bench *bench, plan_batch *plan) {
    const uint64_t batch = bench->options.batch;
    bench->at = 0;
    bench->epoch++;
    const double begin = thread_seconds();
    for (uint64_t number = 0; number < bench->options.batches; number++) {
        plan(bench, number);
        bench->at += batch;
        if (bench->at + batch > bench->options.samples)
            bench->at = 0;
    }
    return (thread_seconds() - begin) * 1e9 / (double)(bench->options.batches * batch);
}

static _Noreturn void explain(void) {
    fprintf(stderr,
            "usage: %s [--samples N] [--batch N] [--least BYTES] [--most BYTES] [--batches N] [--replace]"
            " [--sequential]\n",
            program_invocation_short_name);
    exit(2);
}

static struct options parse(int argc, char **argv) {
    static const struct option table[] = {
        {"samples", required_argument, NULL, 's'}, {"batch", required_argument, NULL, 'b'},
        {"least", required_argument, NULL, 'l'},   {"most", required_argument, NULL, 'm'},
        {"batches", required_argument, NULL, 'n'}, {"replace", no_argument, NULL, 'r'},
        {"sequential", no_argument, NULL, 'o'},    {0}};
    struct options options = {.samples = 600000, .batch = 256, .least = 100, .most = 3000, .batches = 100000};
    for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        uint64_t *value = option == 's'   ? &options.samples
                          : option == 'b' ? &options.batch
                          : option == 'l' ? &options.least
                          : option == 'm' ? &options.most
                                          : &options.batches;
        if (option == '?')
            explain();
        if (option == 'r')
            options.replaces = true;
        else if (option == 'o')
            options.sequential = true;
        else
            *value = bench_number("the number", optarg);
    }
    if (optind != argc || options.batch < 1 || options.batch > CHUNK_MAX_SAMPLES || options.batches < 1 ||
        options.samples < options.batch || options.least > options.most || options.most > UINT32_MAX)
        explain();
    return options;
}

int main(int argc, char **argv) {
    static struct bench bench;
    double all[ROUNDS], orders[ROUNDS];
    bench.options = parse(argc, argv);
    make_dataset(&bench);
    make_ring(&bench);
    measure(&bench, plan_places); // first touches
    for (uint32_t round = 0; round < ROUNDS; round++) {
        all[round] = measure(&bench, plan_places);
        orders[round] = measure(&bench, plan_order);
    }
    qsort(all, ROUNDS, sizeof *all, by_size);
    qsort(orders, ROUNDS, sizeof *orders, by_size);
    printf("{\"samples\": %" PRIu64 ", \"batch\": %" PRIu64 ", \"chunks\": %u, \"kbatches_per_s\": %.1f,"
           " \"ns_per_sample\": %.2f, \"least\": %.2f, \"most\": %.2f, \"order_ns_per_sample\": %.2f,"
           " \"check\": %" PRIu64 "}\n",
           bench.options.samples, bench.options.batch, bench.ring.header->chunks_per_slot,
           1e6 / all[ROUNDS / 2] / (double)bench.options.batch, all[ROUNDS / 2], all[0], all[ROUNDS - 1],
           orders[ROUNDS / 2], bench.check);
    batch_places_close(bench.places);
    ring_unmap(&bench.ring);
    free(bench.dataset.size_tables[0]);
    free(bench.layout);
    return 0;
}
