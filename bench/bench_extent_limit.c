// The limit for samples that differ in size: P processes, each a bare loop that reads extents of many files in shuffled
// order, without handing them to anyone: with io_uring, registered files and buffers, and `depth` reads in flight, or,
// with --mapped, with memcpy from maps. --file PREFIX: the files are PREFIX-000000.tar and so on; PREFIX.extents lists
// file, offset and bytes of each sample as three u64. --record: their mean, by which rates are converted to bytes and
// the ring is divided into slots. Each process fills a part of the ring of its own, which may stay in its cache. With
// --turns, batches take turns in the whole ring, as those of feedd do.
#include <liburing.h>

#include "bench/limit.h"

#define MOST_FILES 65536u

struct extent {
    uint64_t file, offset, bytes;
};

static const struct extent *extents;
static char **paths;
static uint32_t file_count;

struct loop {
    const struct limit *limit;
    struct io_uring uring;
    uint8_t *part, *part_end, *place; // what this process fills of the ring, over and over
    uint64_t batch, sample;           // the next to ask for
    bool fixed;
};

static void *map_file(const char *path, uint64_t *bytes) {
    struct stat status;
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        bench_die(path, errno);
    *bytes = (uint64_t)status.st_size;
    void *map = mmap(NULL, *bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (map == MAP_FAILED)
        bench_die(path, errno);
    return map;
}

static void open_extents(struct limit *limit) {
    uint64_t bytes;
    char *path;
    if (asprintf(&path, "%s.extents", limit->file) < 0)
        bench_die("path", ENOMEM);
    extents = map_file(path, &bytes);
    free(path);
    limit->samples = bytes / sizeof *extents;
    if (!limit->samples || limit->samples < limit->batch || limit->samples > UINT32_MAX)
        bench_die("samples, which must be a batch and at most 2^32", EINVAL);
    for (uint64_t i = 0; i < limit->samples; i++)
        file_count = (uint32_t)max_u64(file_count, extents[i].file + 1);
    paths = calloc(file_count, sizeof *paths);
    if (!paths || file_count > MOST_FILES)
        bench_die("files", ENOMEM);
    for (uint32_t i = 0; i < file_count; i++)
        if (asprintf(&paths[i], "%s-%06u.tar", limit->file, i) < 0)
            bench_die("path", ENOMEM);
    limit_allocate(limit);
}

static void take_part(struct loop *loop, uint32_t process) {
    const struct limit *limit = loop->limit;
    const uint64_t parts = limit->turns ? 1 : limit->processes;
    const uint64_t bytes = limit->ring_bytes / parts / CACHE_LINE * CACHE_LINE;
    loop->place = loop->part = limit->ring + process % parts * bytes;
    loop->part_end = loop->part + bytes;
}

static void begin_batch(struct loop *loop) {
    if (loop->limit->turns)
        loop->place = limit_place(loop->limit, loop->batch, 0);
}

// The samples of a batch lie one after another, as those of a ragged field do. Those of a larger batch than usual end
// in the next slot.
static const struct extent *next_extent(struct loop *loop, uint8_t **place) {
    const struct extent *extent = &extents[limit_sample(loop->limit, loop->batch, loop->sample)];
    if (loop->sample == 0)
        begin_batch(loop);
    if (++loop->sample == loop->limit->batch) {
        loop->sample = 0;
        loop->batch += loop->limit->processes;
    }
    if (extent->bytes > (uint64_t)(loop->part_end - loop->place))
        loop->place = loop->part;
    if (extent->bytes > (uint64_t)(loop->part_end - loop->place))
        bench_die("a sample, for which the ring is too small", ENOMEM);
    *place = loop->place;
    loop->place += extent->bytes;
    return extent;
}

static void open_uring(struct loop *loop, struct limit_shared *shared) {
    const struct limit *limit = loop->limit;
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = 2 * (unsigned)limit->depth,
    };
    int err = io_uring_queue_init_params((unsigned)limit->depth, &loop->uring, &params);
    if (err < 0)
        bench_die("io_uring_queue_init", err);
    io_uring_register_ring_fd(&loop->uring);
    AUTO_FREE int *fds = calloc(file_count, sizeof *fds);
    for (uint32_t i = 0; fds && i < file_count; i++)
        if ((fds[i] = open(paths[i], O_RDONLY | O_CLOEXEC)) < 0)
            bench_die(paths[i], errno);
    err = fds ? io_uring_register_files(&loop->uring, fds, file_count) : -ENOMEM;
    if (err < 0)
        bench_die("io_uring_register_files", err);
    struct iovec whole = {.iov_base = limit->ring, .iov_len = limit->ring_bytes};
    loop->fixed = io_uring_register_buffers(&loop->uring, &whole, 1) == 0;
    if (!loop->fixed)
        atomic_store(&shared->plain_buffers, 1);
}

static void ask(struct loop *loop) {
    uint8_t *place;
    const struct extent *extent = next_extent(loop, &place);
    struct io_uring_sqe *read = io_uring_get_sqe(&loop->uring);
    if (loop->fixed)
        io_uring_prep_read_fixed(read, (int)extent->file, place, (unsigned)extent->bytes, extent->offset, 0);
    else
        io_uring_prep_read(read, (int)extent->file, place, (unsigned)extent->bytes, extent->offset);
    read->flags |= IOSQE_FIXED_FILE;
    read->user_data = extent->bytes;
}

static uint64_t reap(struct loop *loop) {
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;
    io_uring_for_each_cqe(&loop->uring, head, cqe) {
        seen++;
        if (cqe->res < 0 || (uint64_t)cqe->res != cqe->user_data)
            bench_die("read", cqe->res < 0 ? cqe->res : EIO);
    }
    io_uring_cq_advance(&loop->uring, seen);
    return seen;
}

static uint64_t read_extents(struct loop *loop, struct limit_shared *shared) {
    uint64_t in_flight = 0, done = 0;
    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        for (; in_flight < loop->limit->depth; in_flight++)
            ask(loop);
        int err = io_uring_submit_and_wait(&loop->uring, 1);
        if (err < 0 && err != -EINTR)
            bench_die("io_uring_submit_and_wait", err);
        uint64_t reads = reap(loop);
        in_flight -= reads;
        done += reads;
    }
    return done;
}

static uint64_t copy_extents(struct loop *loop, struct limit_shared *shared, const uint8_t *const *maps) {
    uint64_t done = 0;
    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        for (uint64_t i = 0; i < loop->limit->batch; i++, done++) {
            uint8_t *place;
            const struct extent *extent = next_extent(loop, &place);
            memcpy(place, maps[extent->file] + extent->offset, extent->bytes);
        }
    }
    return done;
}

static void fill(const struct limit *limit, struct limit_shared *shared, uint32_t process) {
    struct loop loop = {.limit = limit, .batch = process};
    AUTO_FREE const uint8_t **maps = calloc(file_count, sizeof *maps);
    uint64_t bytes;
    if (!maps)
        bench_die("memory for the maps", ENOMEM);
    take_part(&loop, process);
    if (!limit->mapped)
        open_uring(&loop, shared);
    for (uint32_t i = 0; limit->mapped && i < file_count; i++)
        maps[i] = map_file(paths[i], &bytes);
    limit_start(shared);
    uint64_t start = bench_ns();
    uint64_t done = limit->mapped ? copy_extents(&loop, shared, maps) : read_extents(&loop, shared);
    shared->ns[process] = bench_ns() - start;
    shared->done[process] = done;
}

int main(int argc, char **argv) {
    struct limit limit;
    limit_options(&limit, argc, argv);
    open_extents(&limit);
    return limit_run(&limit, fill);
}
