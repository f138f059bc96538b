// The limit of reading files in a folder: P processes, each a bare loop that keeps `depth` chains of openat, read and
// close in one io_uring, with direct descriptors and registered buffers, and looks at nothing. --file is a folder that
// bench_folder_gen has made, --record the bytes of each of its files.
#include <liburing.h>

#include "bench/folder.h"
#include "bench/limit.h"

#define STEPS 3u // of a chain

struct loop {
    const struct limit *limit;
    struct io_uring uring;
    uint64_t batch, sample; // the next to ask for
    bool fixed;
    uint32_t *idle; // places that are not under way
    uint32_t idle_count;
    char (*paths)[FOLDER_PATH];
};

static void open_uring(struct loop *loop, struct limit_shared *shared) {
    const struct limit *limit = loop->limit;
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = 2 * STEPS * (unsigned)limit->depth,
    };
    int err = io_uring_queue_init_params(STEPS * (unsigned)limit->depth, &loop->uring, &params);
    if (!err)
        err = io_uring_register_files_sparse(&loop->uring, (unsigned)limit->depth);
    if (err < 0)
        bench_die("io_uring", err);
    io_uring_register_ring_fd(&loop->uring);
    struct iovec whole = {.iov_base = limit->ring, .iov_len = limit->ring_bytes};
    loop->fixed = io_uring_register_buffers(&loop->uring, &whole, 1) == 0;
    if (!loop->fixed)
        atomic_store(&shared->plain_buffers, 1);
}

static void ask(struct loop *loop, uint32_t place) {
    const struct limit *limit = loop->limit;
    uint8_t *to = limit_place(limit, loop->batch, loop->sample);
    folder_path(limit_sample(limit, loop->batch, loop->sample), loop->paths[place]);
    struct io_uring_sqe *step = io_uring_get_sqe(&loop->uring);
    io_uring_prep_openat_direct(step, limit->fd, loop->paths[place], O_RDONLY, 0, place);
    step->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
    step->user_data = UINT64_MAX;
    step = io_uring_get_sqe(&loop->uring);
    if (loop->fixed)
        io_uring_prep_read_fixed(step, (int)place, to, (unsigned)limit->record, 0, 0);
    else
        io_uring_prep_read(step, (int)place, to, (unsigned)limit->record, 0);
    step->flags |= IOSQE_FIXED_FILE | IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
    step->user_data = UINT64_MAX;
    step = io_uring_get_sqe(&loop->uring);
    io_uring_prep_close_direct(step, place);
    step->user_data = place;
    if (++loop->sample == limit->batch) {
        loop->sample = 0;
        loop->batch += limit->processes;
    }
}

// Returns how many chains ended.
static uint64_t reap(struct loop *loop) {
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;
    io_uring_for_each_cqe(&loop->uring, head, cqe) {
        if (cqe->res < 0 || cqe->user_data == UINT64_MAX)
            bench_die("a file", cqe->res < 0 ? cqe->res : EIO);
        loop->idle[loop->idle_count++] = (uint32_t)cqe->user_data;
        seen++;
    }
    io_uring_cq_advance(&loop->uring, seen);
    return seen;
}

static void read_batches(const struct limit *limit, struct limit_shared *shared, uint32_t process) {
    struct loop loop = {.limit = limit, .batch = process};
    loop.idle = calloc(limit->depth, sizeof *loop.idle);
    loop.paths = calloc(limit->depth, sizeof *loop.paths);
    if (!loop.idle || !loop.paths)
        bench_die("memory", ENOMEM);
    for (uint32_t i = 0; i < limit->depth; i++)
        loop.idle[loop.idle_count++] = i;
    open_uring(&loop, shared);
    limit_start(shared);
    uint64_t start = bench_ns(), done = 0;
    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        while (loop.idle_count)
            ask(&loop, loop.idle[--loop.idle_count]);
        int err = io_uring_submit_and_wait(&loop.uring, 1);
        if (err < 0 && err != -EINTR)
            bench_die("io_uring_submit_and_wait", err);
        done += reap(&loop);
    }
    shared->ns[process] = bench_ns() - start;
    shared->done[process] = done;
}

static uint64_t count_files(int folder) {
    char path[FOLDER_PATH];
    uint64_t count = 0;
    while (faccessat(folder, folder_path(count, path), F_OK, 0) == 0)
        count++;
    return count;
}

int main(int argc, char **argv) {
    struct limit limit;
    limit_options(&limit, argc, argv);
    limit.fd = open(limit.file, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (limit.fd < 0)
        bench_die(limit.file, errno);
    limit.samples = count_files(limit.fd);
    if (limit.samples < limit.batch)
        bench_die("files in the folder, which must be a batch at least", EINVAL);
    limit_allocate(&limit);
    return limit_run(&limit, read_batches);
}
