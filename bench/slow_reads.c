// A library to be preloaded into feedd with io_delay_us: of 100 samples, one, by a hash of its offset, is delayed 100
// times as long. Each read is preceded by its timer, whose time is exchanged before the kernel sees it.
#include <dlfcn.h>
#include <liburing.h>
#include <stdint.h>

#define SLOW_ONE_IN 100u
#define SLOW_TIMES  100

#define VISIBLE __attribute__((visibility("default")))

static int (*real_submit)(struct io_uring *);
static int (*real_events)(struct io_uring *);
static int (*real_wait)(struct io_uring *, struct io_uring_cqe **, unsigned, struct __kernel_timespec *,
                        sigset_t *);
static struct __kernel_timespec slow;

// Programs without liburing, which are preloaded with it too, never call these.
__attribute__((constructor)) static void begin(void) {
    real_submit = (int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit");
    real_events = (int (*)(struct io_uring *))dlsym(RTLD_NEXT, "io_uring_submit_and_get_events");
    real_wait = (int (*)(struct io_uring *, struct io_uring_cqe **, unsigned, struct __kernel_timespec *,
                         sigset_t *))dlsym(RTLD_NEXT, "io_uring_submit_and_wait_timeout");
}

static int is_slow(uint64_t offset) {
    uint64_t word = offset * UINT64_C(0x9e3779b97f4a7c15);
    word = (word ^ (word >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (word ^ (word >> 32)) % SLOW_ONE_IN == 0;
}

static void slow_down(struct io_uring *uring) {
    struct io_uring_sq *queue = &uring->sq;
    for (unsigned at = queue->sqe_head; at + 1 < queue->sqe_tail; at++) {
        struct io_uring_sqe *timer = &queue->sqes[at & queue->ring_mask];
        const struct io_uring_sqe *read = &queue->sqes[(at + 1) & queue->ring_mask];
        if (timer->opcode != IORING_OP_TIMEOUT || read->opcode == IORING_OP_TIMEOUT || !is_slow(read->off))
            continue;
        const struct __kernel_timespec *usual = (const struct __kernel_timespec *)(uintptr_t)timer->addr;
        if (usual == &slow)
            continue;
        int64_t ns = (usual->tv_sec * 1000000000 + usual->tv_nsec) * SLOW_TIMES;
        slow = (struct __kernel_timespec){ns / 1000000000, ns % 1000000000};
        timer->addr = (uintptr_t)&slow;
    }
}

VISIBLE int io_uring_submit(struct io_uring *uring) {
    slow_down(uring);
    return real_submit(uring);
}

VISIBLE int io_uring_submit_and_get_events(struct io_uring *uring) {
    slow_down(uring);
    return real_events(uring);
}

VISIBLE int io_uring_submit_and_wait_timeout(struct io_uring *uring, struct io_uring_cqe **cqe, unsigned wait,
                                             struct __kernel_timespec *limit, sigset_t *signals) {
    slow_down(uring);
    return real_wait(uring, cqe, wait, limit, signals);
}
