// Shared by the programs that measure limits: options, a shuffled order, and P processes that start together, run for
// a while and stop. It contains no feedd code, so that a limit never measures feedd against itself.
#ifndef FEEDD_BENCH_LIMIT_H
#define FEEDD_BENCH_LIMIT_H

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "bench/bench.h"

#define LIMIT_MAX_PROCESSES 64

// What a limit reads: `record`-byte samples of a file in shuffled order, batch after batch into `ring`.
struct limit {
    const char *file;
    uint64_t record, batch, processes, ring_bytes, depth, delay_us;
    double seconds;
    bool direct;
    bool ahead;  // fetch the next sample into the cache while one is copied
    bool mapped; // copy from a map instead of reading
    bool turns;  // samples that differ in size: batches take turns in the whole ring
    int fd;
    uint64_t samples; // in the file
    uint32_t *order;  // a permutation of 0..samples-1
    uint8_t *ring;    // shared by all processes, as feedd's ring is
    uint64_t slots;   // batches it has room for
};

// Memory shared by the processes. Each writes its own entries of the arrays; the parent writes go and stop.
struct limit_shared {
    _Atomic uint32_t ready, go, stop, plain_buffers;
    uint64_t done[LIMIT_MAX_PROCESSES]; // samples
    uint64_t ns[LIMIT_MAX_PROCESSES];   // that they took
};

static inline void limit_shuffle(struct limit *limit) {
    limit->order = malloc(limit->samples * sizeof(*limit->order));
    if (!limit->order)
        bench_die("order", ENOMEM);
    for (uint64_t i = 0; i < limit->samples; i++)
        limit->order[i] = (uint32_t)i;
    uint64_t state = 1;
    for (uint64_t i = limit->samples; i > 1; i--) {
        uint64_t other = bench_mix(&state) % i;
        uint32_t kept = limit->order[i - 1];
        limit->order[i - 1] = limit->order[other];
        limit->order[other] = kept;
    }
}

// Sample number `i` of the endless run of batches, which the processes divide among themselves batch by batch.
static inline uint64_t limit_sample(const struct limit *limit, uint64_t batch, uint64_t i) {
    return limit->order[(batch * limit->batch + i) % limit->samples];
}

static inline uint8_t *limit_place(const struct limit *limit, uint64_t batch, uint64_t i) {
    return limit->ring + (batch % limit->slots * limit->batch + i) * limit->record;
}

_Noreturn static inline void limit_usage(void) {
    fprintf(stderr,
            "usage: %s --file F --record BYTES [--batch N] [--processes P] [--seconds T]\n"
            "       [--ring BYTES] [--depth D] [--delay-us U] [--direct] [--ahead] [--mapped] [--turns]\n",
            program_invocation_short_name);
    exit(2);
}

static inline void limit_options(struct limit *limit, int argc, char **argv) {
    static const struct option options[] = {
        {"file", 1, NULL, 'f'},      {"record", 1, NULL, 'r'},   {"batch", 1, NULL, 'b'},
        {"processes", 1, NULL, 'p'}, {"ring", 1, NULL, 'R'},     {"depth", 1, NULL, 'd'},
        {"seconds", 1, NULL, 's'},   {"delay-us", 1, NULL, 'u'}, {"direct", 0, NULL, 'D'},
        {"ahead", 0, NULL, 'a'},     {"mapped", 0, NULL, 'm'},   {"turns", 0, NULL, 't'},
        {NULL, 0, NULL, 0},
    };
    *limit =
        (struct limit){.batch = 256, .processes = 1, .ring_bytes = 16u << 20, .depth = 256, .seconds = 1};
    int letter, index = 0;
    while ((letter = getopt_long(argc, argv, "", options, &index)) != -1) {
        const char *name = options[index].name;
        switch (letter) {
        case 'f':
            limit->file = optarg;
            break;
        case 'r':
            limit->record = bench_number(name, optarg);
            break;
        case 'b':
            limit->batch = bench_number(name, optarg);
            break;
        case 'p':
            limit->processes = bench_number(name, optarg);
            break;
        case 'R':
            limit->ring_bytes = bench_number(name, optarg);
            break;
        case 'd':
            limit->depth = bench_number(name, optarg);
            break;
        case 'u':
            limit->delay_us = bench_number(name, optarg);
            break;
        case 'D':
            limit->direct = true;
            break;
        case 'a':
            limit->ahead = true;
            break;
        case 'm':
            limit->mapped = true;
            break;
        case 't':
            limit->turns = true;
            break;
        case 's':
            limit->seconds = strtod(optarg, NULL);
            break;
        default:
            limit_usage();
        }
    }
    if (!limit->file || !limit->record || !limit->batch || !limit->depth || optind < argc)
        limit_usage();
    if (limit->processes < 1 || limit->processes > LIMIT_MAX_PROCESSES || !(limit->seconds > 0))
        limit_usage();
}

// The ring and the order. limit->samples is known.
static inline void limit_allocate(struct limit *limit) {
    uint64_t batch_bytes = limit->batch * limit->record;
    limit->slots = max_u64(1, limit->ring_bytes / max_u64(1, batch_bytes));
    limit->ring_bytes = limit->slots * batch_bytes;
    AUTO_CLOSE int memory = memfd_create("bench-ring", MFD_CLOEXEC);
    if (memory < 0 || fallocate(memory, 0, 0, (off_t)limit->ring_bytes) < 0)
        bench_die("ring", errno);
    limit->ring = mmap(NULL, limit->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (limit->ring == MAP_FAILED)
        bench_die("ring", errno);
    limit_shuffle(limit);
}

static inline void limit_open(struct limit *limit) {
    struct stat status;
    limit->fd = open(limit->file, O_RDONLY | O_CLOEXEC | (limit->direct ? O_DIRECT : 0));
    if (limit->fd < 0 || fstat(limit->fd, &status) < 0)
        bench_die(limit->file, errno);
    limit->samples = (uint64_t)status.st_size / limit->record;
    if (limit->samples < limit->batch || limit->samples > UINT32_MAX)
        bench_die("samples in the file, which must hold a batch and at most 2^32", EINVAL);
    limit_allocate(limit);
}

// Starts a process for every `work`, lets them run together for the time asked for, and prints what they did
// as JSON. `work` sets up, calls limit_start, fills batches number `process`, `process` + P, ... until
// shared->stop, and leaves the number of samples in shared->done.
typedef void limit_work(const struct limit *limit, struct limit_shared *shared, uint32_t process);

static inline void limit_start(struct limit_shared *shared) {
    atomic_fetch_add(&shared->ready, 1);
    while (!atomic_load(&shared->go))
        usleep(100);
}

static inline void limit_child(const struct limit *limit, struct limit_shared *shared, uint32_t process,
                               limit_work *work) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    memset(limit->ring, 0, limit->ring_bytes); // every process has its pages mapped before the clock starts
    work(limit, shared, process);
    _exit(0);
}

static inline void limit_sleep(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&time, &time) < 0 && errno == EINTR)
        ;
}

static inline int limit_wait(const struct limit *limit) {
    int err = 0;
    for (uint32_t i = 0; i < limit->processes; i++) {
        int status;
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
            err = 1;
    }
    return err;
}

static inline void limit_report(const struct limit *limit, const struct limit_shared *shared) {
    double rate = 0;
    uint64_t samples = 0;
    for (uint32_t i = 0; i < limit->processes; i++) {
        rate += shared->ns[i] ? (double)shared->done[i] * 1e9 / (double)shared->ns[i] : 0;
        samples += shared->done[i];
    }
    printf("{\"samples_per_second\": %.1f, \"bytes_per_second\": %.0f, \"samples\": %llu, \"cpu_seconds\": "
           "%.3f, "
           "\"ring_bytes\": %llu, \"plain_buffers\": %s}\n",
           rate, rate * (double)limit->record, (unsigned long long)samples,
           bench_cpu_seconds(RUSAGE_CHILDREN), (unsigned long long)limit->ring_bytes,
           shared->plain_buffers ? "true" : "false");
}

static inline int limit_run(const struct limit *limit, limit_work *work) {
    struct limit_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        bench_die("shared memory", errno);
    for (uint32_t i = 0; i < limit->processes; i++) {
        pid_t pid = fork();
        if (pid < 0)
            bench_die("fork", errno);
        if (pid == 0)
            limit_child(limit, shared, i, work);
    }
    while (atomic_load(&shared->ready) < limit->processes) {
        if (waitpid(-1, NULL, WNOHANG) > 0)
            bench_die("a process ended while it set up", ECHILD);
        usleep(1000);
    }
    atomic_store(&shared->go, 1);
    limit_sleep(limit->seconds);
    atomic_store(&shared->stop, 1);
    if (limit_wait(limit))
        return 1;
    limit_report(limit, shared);
    return 0;
}

#endif
