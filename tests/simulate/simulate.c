// Simulates the daemon and its clients, one scenario per seed: see README.md of the tests. Prints nothing but the
// outcome, unless a property is violated: then which seed, what does not hold, and how to replay it.
//
//   simulate --seeds N [--first SEED] [--jobs N] [--defect NAME] [--all]   N seeds; --all continues after violations
//   simulate --seed SEED [-v]                                             one seed, and what happens in it
//   simulate --twice N [--first SEED]                                     each seed does the same every time
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/simulate/chaos.h"
#include "tests/simulate/client.h"
#include "tests/simulate/daemon.h"
#include "tests/simulate/defects.h"
#include "tests/simulate/growing.h"
#include "tests/simulate/leaks.h"
#include "tests/simulate/loader.h"
#include "tests/simulate/network.h"

#define CALM_MOST_NS (300 * NS_PER_S) // everybody must have finished by then
#define DISMISS_NS   (200 * NS_PER_S) // ... if that is possible
#define JOBS_MOST    256u
#define SECONDS_MOST 20 // of processor time, for one seed

// What a worker has done, which survives it.
struct progress {
    uint64_t seed, done, batches, steps, virtual_ns;
    pid_t pid;
};

static struct options {
    uint64_t first, count;
    uint32_t jobs;
    bool replay, twice, all;
    const char *defect;
} options = {.first = 1, .jobs = 1, .defect = ""};

// ---- One seed ----------------------------------------------------------------------------------------------

static bool is_over(void) {
    static uint64_t seed, calm_ns;
    static bool dismissed;
    if (!sim.calm) {
        seed = 0;
        dismissed = false;
        return false;
    }
    if (seed != sim.seed) {
        seed = sim.seed;
        calm_ns = sim.now_ns;
    }
    if (clients_done())
        return true;
    if (sim.now_ns > calm_ns + DISMISS_NS && !dismissed) {
        dismissed = true;
        clients_dismiss();
    }
    if (sim.now_ns > calm_ns + CALM_MOST_NS) {
        clients_describe();
        daemon_describe();
        sim_violated("no progress: %d s of calm were not enough", (int)(CALM_MOST_NS / NS_PER_S));
    }
    return false;
}

// A machine that is busy with something else does not end it.
static void limit_time(void) {
    const struct itimerval limit = {.it_value = {.tv_sec = SECONDS_MOST}};
    setitimer(ITIMER_PROF, &limit, NULL);
}

static void run_seed(uint64_t seed, struct progress *progress) {
    limit_time();
    leaks_begin();
    sim_begin(seed);
    plan_make();
    network_begin();
    loaders_begin();
    growing_begin();
    daemon_begin();
    clients_begin();
    chaos_begin();
    sim_run(is_over);
    daemon_end();
    progress->batches += clients_batches();
    progress->steps += sim.steps;
    progress->virtual_ns += sim.now_ns - 1000 * NS_PER_S;
    clients_end();
    leaks_check();
}

// ---- Workers -----------------------------------------------------------------------------------------------

static void work(struct progress *progress, uint64_t stride) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    daemon_prepare();
    for (; progress->seed < options.first + options.count; progress->seed += stride) {
        run_seed(progress->seed, progress);
        if (options.twice) {
            uint64_t hash = sim.hash;
            run_seed(progress->seed, progress);
            if (hash != sim.hash)
                sim_violated("it does not do the same every time");
        }
        progress->done++;
    }
    _exit(0);
}

static void start_worker(struct progress *progress, uint64_t stride) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        exit(2);
    if (pid == 0)
        work(progress, stride);
    progress->pid = pid;
}

static void tell_violation(const struct progress *progress, int status) {
    if (WIFSIGNALED(status))
        fprintf(stderr, "SEED %" PRIu64 ": ended by signal %d (%s)\n", progress->seed, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    fprintf(stderr, "replay it: make simulate SEED=%" PRIu64 "%s%s\n", progress->seed,
            *options.defect ? " DEFECT=" : "", options.defect);
}

// Returns how many seeds violate a property.
static uint64_t run_workers(struct progress *all) {
    uint64_t violations = 0;
    int status;
    pid_t pid;
    for (uint32_t i = 0; i < options.jobs; i++) {
        all[i].seed = options.first + i;
        start_worker(&all[i], options.jobs);
    }
    while ((pid = wait(&status)) > 0) {
        struct progress *progress = all;
        while (progress->pid != pid)
            progress++;
        if (status == 0)
            continue;
        violations++;
        if (violations <= 10)
            tell_violation(progress, status);
        progress->seed += options.jobs;
        progress->done++;
        if (options.all || violations < 3)
            start_worker(progress, options.jobs);
    }
    return violations;
}

static void tell_outcome(const struct progress *all, uint64_t violations, uint64_t began_ns) {
    struct timespec now;
    struct progress sum = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds =
        (double)((uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec - began_ns) / (double)NS_PER_S;
    for (uint32_t i = 0; i < options.jobs; i++) {
        sum.done += all[i].done;
        sum.batches += all[i].batches;
        sum.virtual_ns += all[i].virtual_ns;
    }
    printf("simulate: %" PRIu64 " seeds, %" PRIu64 " violate a property; %" PRIu64
           " batches, %.0f hours of virtual"
           " time in %.1f s, %.0f seeds/s\n",
           sum.done, violations, sum.batches, (double)sum.virtual_ns / 3600e9, seconds,
           (double)sum.done / seconds);
}

static int run_all(void) {
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    struct progress *all =
        mmap(NULL, JOBS_MOST * sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return 2;
    uint64_t violations = run_workers(all);
    tell_outcome(all, violations, (uint64_t)began.tv_sec * NS_PER_S + (uint64_t)began.tv_nsec);
    return violations != 0;
}

// ---- Arguments ---------------------------------------------------------------------------------------------

static void read_arguments(int argc, char **argv) {
    static const struct option known[] = {
        {"seeds", required_argument, NULL, 'n'}, {"seed", required_argument, NULL, 's'},
        {"first", required_argument, NULL, 'f'}, {"jobs", required_argument, NULL, 'j'},
        {"twice", required_argument, NULL, 't'}, {"defect", required_argument, NULL, 'd'},
        {"all", no_argument, NULL, 'a'},         {0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "v", known, NULL)) >= 0) {
        if (option == 'n' || option == 't')
            options.count = strtoull(optarg, NULL, 10);
        if (option == 's' || option == 'f')
            options.first = strtoull(optarg, NULL, 10);
        if (option == 'j')
            options.jobs = (uint32_t)max_u64(1, min_u64(strtoull(optarg, NULL, 10), JOBS_MOST));
        if (option == 'd')
            options.defect = optarg;
        options.replay |= option == 's';
        options.twice |= option == 't';
        options.all |= option == 'a';
        sim.trace |= option == 'v';
        if (option == '?')
            exit(2);
    }
    if (!defect_choose(options.defect)) {
        fprintf(stderr, "simulate: there is no defect called %s\n", options.defect);
        exit(2);
    }
}

int main(int argc, char **argv) {
    read_arguments(argc, argv);
    if (!options.replay)
        return run_all();
    struct progress progress = {.seed = options.first};
    options.count = 1;
    daemon_prepare();
    run_seed(options.first, &progress);
    printf("seed %" PRIu64 ": every property holds; %" PRIu64 " steps, %" PRIu64
           " batches, %.3f s of virtual time,"
           " hash %016" PRIx64 "\n",
           options.first, sim.steps, progress.batches, (double)progress.virtual_ns / 1e9, sim.hash);
    return 0;
}
