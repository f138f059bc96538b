// The limit of io_uring: P processes, each a bare loop that keeps `depth` random reads of samples in flight, with
// registered file, ring and buffers, without handing them to anyone. --delay-us puts a timer before every read.
#include <liburing.h>

#include "bench/limit.h"

struct loop {
    const struct limit *limit;
    struct io_uring uring;
    struct __kernel_timespec delay;
    uint64_t batch, sample; // the next to ask for
    bool fixed;
};

static void open_uring(struct loop *loop, struct limit_shared *shared) {
    const struct limit *limit = loop->limit;
    unsigned entries = (unsigned)limit->depth * (limit->delay_us ? 2 : 1);
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
        .cq_entries = 2 * entries,
    };
    int err = io_uring_queue_init_params(entries, &loop->uring, &params);
    if (err < 0)
        bench_die("io_uring_queue_init", err);
    io_uring_register_ring_fd(&loop->uring);
    // Each loop opens the file itself: with a shared open file description, every read writes to the same cache line.
    int own = open(limit->file, O_RDONLY | O_CLOEXEC | (limit->direct ? O_DIRECT : 0));
    if (own < 0)
        bench_die(limit->file, errno);
    err = io_uring_register_files(&loop->uring, &own, 1);
    if (err < 0)
        bench_die("io_uring_register_files", err);
    struct iovec whole = {.iov_base = limit->ring, .iov_len = limit->ring_bytes};
    loop->fixed = io_uring_register_buffers(&loop->uring, &whole, 1) == 0;
    if (!loop->fixed)
        atomic_store(&shared->plain_buffers, 1);
}

static void ask(struct loop *loop) {
    const struct limit *limit = loop->limit;
    if (limit->delay_us) {
        struct io_uring_sqe *timer = io_uring_get_sqe(&loop->uring);
        io_uring_prep_timeout(timer, &loop->delay, 0, IORING_TIMEOUT_ETIME_SUCCESS);
        timer->flags |= IOSQE_IO_LINK;
        timer->user_data = 0;
    }
    struct io_uring_sqe *read = io_uring_get_sqe(&loop->uring);
    uint8_t *place = limit_place(limit, loop->batch, loop->sample);
    uint64_t offset = limit_sample(limit, loop->batch, loop->sample) * limit->record;
    if (loop->fixed)
        io_uring_prep_read_fixed(read, 0, place, (unsigned)limit->record, offset, 0);
    else
        io_uring_prep_read(read, 0, place, (unsigned)limit->record, offset);
    read->flags |= IOSQE_FIXED_FILE;
    read->user_data = 1;
    if (++loop->sample == limit->batch) {
        loop->sample = 0;
        loop->batch += limit->processes;
    }
}

// Returns how many reads ended.
static uint64_t reap(struct loop *loop) {
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;
    uint64_t reads = 0;
    io_uring_for_each_cqe(&loop->uring, head, cqe) {
        seen++;
        if (cqe->user_data == 0 && (cqe->res == 0 || cqe->res == -ETIME))
            continue;
        if (cqe->res != (int)loop->limit->record)
            bench_die("read", cqe->res < 0 ? cqe->res : EIO);
        reads++;
    }
    io_uring_cq_advance(&loop->uring, seen);
    return reads;
}

static void read_batches(const struct limit *limit, struct limit_shared *shared, uint32_t process) {
    struct loop loop = {
        .limit = limit, .batch = process, .delay = {.tv_nsec = (long long)limit->delay_us * 1000}};
    open_uring(&loop, shared);
    limit_start(shared);
    uint64_t start = bench_ns(), in_flight = 0, done = 0;
    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        for (; in_flight < limit->depth; in_flight++)
            ask(&loop);
        int err = io_uring_submit_and_wait(&loop.uring, 1);
        if (err < 0 && err != -EINTR)
            bench_die("io_uring_submit_and_wait", err);
        uint64_t reads = reap(&loop);
        in_flight -= reads;
        done += reads;
    }
    shared->ns[process] = bench_ns() - start;
    shared->done[process] = done;
}

int main(int argc, char **argv) {
    struct limit limit;
    limit_options(&limit, argc, argv);
    limit_open(&limit);
    return limit_run(&limit, read_batches);
}
