// Many loader processes on one shared ring, killed with SIGKILL wherever they happen to be; every batch
// must come once and whole. RING_STORM_SECONDS=N makes a long storm of the few seconds that each case takes
// (make ring-storm).
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/scope.h"
#include "base/time.h"
#include "tests/unit/ring_storm.h"

#define LOADERS_MOST 8u
#define NS_PER_MS    UINT64_C(1000000)

struct loader_process {
    pid_t pid;
    uint32_t owner;
    int pid_fd;
};

struct processes {
    struct storm storm;
    uint32_t loaders;
    struct loader_process list[LOADERS_MOST];
    uint32_t next_owner;
    uint64_t random, kill_at_ns, kill_every_ns, deaths;
};

// Besides being killed from outside it dies by itself, at those places that are too short to be hit
// otherwise.
static void play_loader(const struct processes *processes, uint32_t owner, pid_t parent) {
    uint64_t random = owner * UINT64_C(0x9e3779b97f4a7c15);
    struct ring ring = processes->storm.ring;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    for (;;) {
        bool doomed = fixture_random(&random) % 500 == 0;
        enum storm_death death = doomed ? 1 + fixture_random(&random) % (STORM_DEATHS - 1) : DIE_NOT;
        if (!storm_turn(&processes->storm, &ring, owner, death))
            kill(getpid(), SIGKILL);
    }
}

static bool start_loader(struct processes *processes, struct loader_process *loader) {
    pid_t parent = getpid();
    *loader = (struct loader_process){.owner = ++processes->next_owner, .pid_fd = -1};
    loader->pid = fork();
    if (loader->pid == 0)
        play_loader(processes, loader->owner, parent);
    if (loader->pid > 0)
        loader->pid_fd = (int)syscall(SYS_pidfd_open, loader->pid, 0);
    return loader->pid_fd >= 0;
}

static void end_loader(struct loader_process *loader) {
    if (loader->pid <= 0)
        return;
    kill(loader->pid, SIGKILL);
    waitpid(loader->pid, NULL, 0);
    close_fd(&loader->pid_fd);
    loader->pid = 0;
}

static bool take(struct storm *storm, uint32_t slot) {
    if (!storm_batch_is_right(storm, slot))
        return false;
    storm_release(storm, slot);
    return true;
}

static const char *serve(struct processes *processes) {
    struct storm *storm = &processes->storm;
    uint64_t before = storm->finished;
    do {
        before = storm->finished;
        if (!storm_look(storm, take))
            return "a batch is not what was dispatched";
        storm_dispatch(storm);
    } while (storm->finished != before); // batches without samples are complete at once
    return NULL;
}

// Waits for eventfd and deaths until `until`; false when it went wrong.
static const char *hear(struct processes *processes, uint64_t until) {
    struct storm *storm = &processes->storm;
    struct pollfd ears[LOADERS_MOST + 1] = {{storm->event_fd, POLLIN, 0}};
    for (uint32_t i = 0; i < processes->loaders; i++)
        ears[i + 1] = (struct pollfd){processes->list[i].pid_fd, POLLIN, 0};
    uint64_t now = monotonic_ns();
    uint64_t wait_ns = until > now ? until - now : 0;
    if (poll(ears, processes->loaders + 1, (int)(wait_ns / NS_PER_MS)) < 0)
        return "poll failed";
    if (ears[0].revents)
        storm_hear_event(storm);
    for (uint32_t i = 0; i < processes->loaders; i++) {
        if (!ears[i + 1].revents)
            continue;
        end_loader(&processes->list[i]);
        storm_bury(storm, processes->list[i].owner);
        processes->deaths++;
        if (!start_loader(processes, &processes->list[i]))
            return "no process could be started";
    }
    return NULL;
}

static void kill_one(struct processes *processes) {
    uint64_t now = monotonic_ns();
    if (now < processes->kill_at_ns)
        return;
    kill(processes->list[fixture_random(&processes->random) % processes->loaders].pid, SIGKILL);
    processes->kill_at_ns = now + fixture_random(&processes->random) % (2 * processes->kill_every_ns);
}

static const char *rage(struct processes *processes, uint64_t seconds) {
    struct storm *storm = &processes->storm;
    uint64_t end = monotonic_ns() + seconds * 1000 * NS_PER_MS;
    uint64_t moved = 0, moved_at = monotonic_ns();
    for (uint32_t i = 0; i < processes->loaders; i++)
        if (!start_loader(processes, &processes->list[i]))
            return "no process could be started";
    storm_dispatch(storm);
    while (storm->filling || storm->next < storm->batches) {
        const char *complaint = hear(processes, processes->kill_at_ns);
        if (!complaint)
            complaint = serve(processes);
        if (complaint)
            return complaint;
        kill_one(processes);
        uint64_t now = monotonic_ns();
        if (storm->finished != moved)
            moved_at = now;
        moved = storm->finished;
        if (now - moved_at > STORM_SILENCE_MS * NS_PER_MS)
            return "nothing moves any more";
        if (now > end)
            storm->batches = storm->next; // no more; those under way are finished
    }
    return NULL;
}

static uint64_t seconds_of_storm(void) {
    const char *text = getenv("RING_STORM_SECONDS");
    return text ? strtoul(text, NULL, 10) : 2;
}

static void run_storm(const struct ring_shape *shape, uint32_t loaders, uint64_t kill_every_ms, bool skips) {
    struct processes processes = {
        .loaders = loaders, .random = 1, .kill_every_ns = kill_every_ms * NS_PER_MS};
    storm_open(&processes.storm, shape, UINT32_MAX, skips);
    const char *complaint = rage(&processes, seconds_of_storm());
    for (uint32_t i = 0; i < loaders; i++)
        end_loader(&processes.list[i]);
    print_message("%lu batches, %lu loaders killed, %lu chunks recovered\n", processes.storm.finished,
                  processes.deaths, processes.storm.recovered);
    if (complaint)
        fail_msg("%s", complaint);
    assert_int_equal(processes.storm.finished, processes.storm.next);
    assert_true(processes.storm.finished > 50);
    assert_true(processes.storm.recovered > 5);
    storm_close(&processes.storm);
}

static void test_a_storm_over_many_chunks(void **state) {
    (void)state;
    run_storm(&(struct ring_shape){8, 256, 16, 16}, 6, 4, false);
}

static void test_a_storm_over_hardly_a_slot(void **state) {
    (void)state;
    run_storm(&(struct ring_shape){1, 64, 4, 64}, 4, 4, false);
}

static void test_a_storm_over_samples_that_cannot_be_read(void **state) {
    (void)state;
    run_storm(&(struct ring_shape){4, 200, 14, 32}, 5, 3, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_storm_over_many_chunks),
        cmocka_unit_test(test_a_storm_over_hardly_a_slot),
        cmocka_unit_test(test_a_storm_over_samples_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
