// What the bus can carry: copies of one size from registered shared memory to the GPU, on one stream or several, as
// fast as possible, without any feedd code. With --file, --threads threads also copy random samples from a map of
// that file into the same memory, to show what host memory can carry when both happen.
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "bench/bench.h"
#include "bench/gpu/work.h"

#define STREAMS_MOST 8u
#define THREADS_MOST 64u
#define QUEUED       8u // copies on a stream
#define POOL_BYTES   (64ull << 20)

struct lane {
    work_stream stream;
    work_event done[QUEUED];
};

struct run {
    const char *device, *file;
    uint64_t bytes, ring_bytes, streams, threads, record;
    double seconds;
    const struct work *work;
    uint8_t *ring, *pool;
    const uint8_t *data; // of the file
    uint64_t data_bytes;
    struct lane lanes[STREAMS_MOST];
    _Atomic bool stopping;
    _Atomic uint64_t filled;
};

// ---- Memory -------------------------------------------------------------------------------------------------

// Created like feedd's rings: a tmpfs file without a name, in huge pages where available.
static void open_ring(struct run *run) {
    AUTO_CLOSE int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)run->ring_bytes) < 0)
        bench_die("/dev/shm", errno);
    run->ring = mmap(NULL, run->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (run->ring == MAP_FAILED)
        bench_die("/dev/shm", errno);
    if (madvise(run->ring, run->ring_bytes, MADV_HUGEPAGE) == 0)
        madvise(run->ring, run->ring_bytes, MADV_POPULATE_WRITE);
    int err = posix_fallocate(fd, 0, (off_t)run->ring_bytes);
    if (err)
        bench_die("room in /dev/shm", err);
    memset(run->ring, 1, run->ring_bytes);
    run->work->pin(run->ring, run->ring_bytes);
}

static void open_file(struct run *run) {
    struct stat status;
    AUTO_CLOSE int fd = open(run->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        bench_die(run->file, errno);
    run->data_bytes = (uint64_t)status.st_size;
    if (run->data_bytes < run->record)
        bench_die(run->file, ENODATA);
    run->data = mmap(NULL, run->data_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (run->data == MAP_FAILED)
        bench_die(run->file, errno);
}

// ---- Filling ------------------------------------------------------------------------------------------------

static void *fill(void *argument) {
    static _Atomic uint64_t threads;
    struct run *run = argument;
    uint64_t state = atomic_fetch_add(&threads, 1) + 1, samples = run->data_bytes / run->record;
    uint64_t places = run->ring_bytes / run->record, done = 0;
    uint64_t place = state * places / (run->threads + 1);
    while (!atomic_load_explicit(&run->stopping, memory_order_relaxed)) {
        for (int i = 0; i < 64; i++) {
            memcpy(run->ring + place++ % places * run->record,
                   run->data + bench_mix(&state) % samples * run->record, run->record);
            done += run->record;
        }
    }
    atomic_fetch_add(&run->filled, done);
    return NULL;
}

static void start_threads(struct run *run, pthread_t *threads) {
    for (uint64_t i = 0; i < run->threads; i++) {
        int err = pthread_create(&threads[i], NULL, fill, run);
        if (err)
            bench_die("a thread", err);
    }
}

// ---- Copying ------------------------------------------------------------------------------------------------

// Copies for that long; returns how many bytes have arrived.
static uint64_t copy(struct run *run, double seconds) {
    uint64_t end = bench_ns() + (uint64_t)(seconds * 1e9), copied = 0;
    uint64_t slots = run->ring_bytes / run->bytes, places = max_u64(1, POOL_BYTES / run->bytes);
    for (uint64_t i = 0; bench_ns() < end; i++) {
        struct lane *lane = &run->lanes[i % run->streams];
        uint64_t turn = i / run->streams;
        if (turn >= QUEUED)
            run->work->wait(lane->done[turn % QUEUED]);
        run->work->copy_in(run->pool + i % places * run->bytes, run->ring + i % slots * run->bytes,
                           run->bytes, lane->stream);
        run->work->record(lane->done[turn % QUEUED], lane->stream);
        copied += run->bytes;
    }
    run->work->finish();
    return copied;
}

static void measure(struct run *run) {
    pthread_t threads[THREADS_MOST];
    open_ring(run);
    run->pool = run->work->memory(max_u64(POOL_BYTES, run->bytes));
    for (uint64_t i = 0; i < run->streams; i++) {
        run->lanes[i].stream = run->work->stream(false);
        for (uint32_t k = 0; k < QUEUED; k++)
            run->lanes[i].done[k] = run->work->event(true);
    }
    copy(run, 0.1);
    uint64_t began = bench_ns();
    start_threads(run, threads);
    uint64_t copied = copy(run, run->seconds);
    double took = (double)(bench_ns() - began) / 1e9;
    atomic_store(&run->stopping, true);
    for (uint64_t i = 0; i < run->threads; i++)
        pthread_join(threads[i], NULL);
    double filling = (double)(bench_ns() - began) / 1e9;
    printf("{\"bytes_per_second\": %.0f, \"seconds\": %.6f, \"filled_bytes_per_second\": %.0f}\n",
           (double)copied / took, took, (double)run->filled / filling);
}

_Noreturn static void usage(void) {
    fprintf(stderr,
            "usage: %s [--device cuda:0] --bytes N [--ring BYTES] [--streams S] [--seconds T]\n"
            "       [--file F --record BYTES --threads N]\n",
            program_invocation_short_name);
    exit(2);
}

static void parse(struct run *run, int argc, char **argv) {
    static const struct option options[] = {
        {"device", 1, NULL, 'D'},  {"bytes", 1, NULL, 'b'},   {"ring", 1, NULL, 'R'},
        {"streams", 1, NULL, 's'}, {"seconds", 1, NULL, 'T'}, {"file", 1, NULL, 'f'},
        {"record", 1, NULL, 'r'},  {"threads", 1, NULL, 't'}, {NULL, 0, NULL, 0},
    };
    *run =
        (struct run){.device = "cuda:0", .ring_bytes = 32u << 20, .streams = 1, .seconds = 1, .record = 4096};
    int letter, index = 0;
    while ((letter = getopt_long(argc, argv, "", options, &index)) != -1) {
        const char *name = options[index].name;
        if (letter == 'D')
            run->device = optarg;
        else if (letter == 'f')
            run->file = optarg;
        else if (letter == 'T')
            run->seconds = strtod(optarg, NULL);
        else if (letter == 'b')
            run->bytes = bench_number(name, optarg);
        else if (letter == 'R')
            run->ring_bytes = bench_number(name, optarg);
        else if (letter == 's')
            run->streams = bench_number(name, optarg);
        else if (letter == 'r')
            run->record = bench_number(name, optarg);
        else if (letter == 't')
            run->threads = bench_number(name, optarg);
        else
            usage();
    }
    if (!run->bytes || !run->record || optind < argc || !(run->seconds > 0) || run->streams < 1 ||
        run->streams > STREAMS_MOST || run->threads > THREADS_MOST || !run->file != !run->threads)
        usage();
    run->ring_bytes = max_u64(1, run->ring_bytes / run->bytes) * run->bytes;
}

int main(int argc, char **argv) {
    static struct run run;
    parse(&run, argc, argv);
    work_time_limit(run.seconds + 60);
    run.work = work_open(run.device);
    if (run.file)
        open_file(&run);
    measure(&run);
    return 0;
}
