// Snapshots of the statistics region while others write it: sums are never double or short, names never
// half old and half new, and a writer that died in the middle holds nobody up.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/time.h"
#include "shm/stats.h"
#include "shm/stats_read.h"

#define STORM_NS UINT64_C(1000000000)

static struct stats_region *region;
static struct stats_snapshot *snapshot;

static int make_region(void **state) {
    (void)state;
    region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snapshot = malloc(sizeof *snapshot);
    return region == MAP_FAILED || !snapshot ? -1 : 0;
}

static int end_region(void **state) {
    (void)state;
    free(snapshot);
    return munmap(region, sizeof *region);
}

static void name_feed(struct stats_feed *feed, uint64_t id, char letter) {
    stats_feed_write_begin(feed);
    feed->id = id;
    memset(feed->name, letter, sizeof feed->name - 1);
    memset(feed->dataset, letter, sizeof feed->dataset - 1);
    feed->batch_size = feed->ring_bytes = (uint64_t)letter;
    stats_feed_write_end(feed);
}

// ---- Loaders come and go ----------------------------------------------------------------------------------

static _Atomic uint64_t begun, done; // true totals: added at most, and at least
static _Atomic uint64_t retirements;
static _Atomic bool over;

// As the supervisor does when a loader has gone: its counters move to the feed in one bracket.
static void retire(struct stats_feed *feed, uint32_t number) {
    struct stats_loader *record = &region->loaders[number];
    stats_feed_write_begin(feed);
    for (int i = 0; i < LOADER_COUNTERS; i++) {
        stats_add(&feed->retired[i], atomic_load_explicit(&record->counters[i], memory_order_relaxed));
        atomic_store_explicit(&record->counters[i], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&region->owners.feed[number], 0, memory_order_release);
    stats_feed_write_end(feed);
}

static void *play_daemon(void *unused) {
    (void)unused;
    uint64_t end = monotonic_ns() + STORM_NS;
    for (uint64_t turn = 0; monotonic_ns() < end; turn++) {
        uint32_t number = (uint32_t)(turn * 37 % STATS_MAX_LOADERS);
        struct stats_loader *record = &region->loaders[number];
        atomic_store_explicit(&region->owners.feed[number], 1, memory_order_release);
        for (uint64_t amount = 1; amount < 4; amount++) {
            atomic_store(&begun, atomic_load(&begun) + amount);
            stats_add(&record->counters[LOADER_samples], amount);
            atomic_store(&done, atomic_load(&done) + amount);
        }
        retire(&region->feeds[3], number);
        atomic_store(&retirements, turn + 1);
        usleep((useconds_t)(turn * 7 % 100));
    }
    atomic_store(&over, true);
    return NULL;
}

static void test_no_sum_is_double_or_short(void **state) {
    (void)state;
    pthread_t daemon;
    uint64_t looks = 0, seen = 0, missed = 0;
    name_feed(&region->feeds[3], 1, 'x');
    assert_int_equal(pthread_create(&daemon, NULL, play_daemon, NULL), 0);
    while (!atomic_load(&over)) {
        uint64_t least = atomic_load(&done);
        stats_snapshot(region, snapshot);
        uint64_t most = atomic_load(&begun);
        looks++;
        if (!snapshot->feed_count) {
            missed++; // rewritten at every look: it says nothing rather than something wrong
            continue;
        }
        uint64_t samples = snapshot->feeds[0].loader[LOADER_samples];
        if (samples < least || samples > most || samples < seen)
            fail_msg("%lu samples, not from %lu to %lu or fewer than the %lu before", samples, least, most,
                     seen);
        seen = samples;
    }
    pthread_join(daemon, NULL);
    stats_snapshot(region, snapshot);
    assert_int_equal(snapshot->feeds[0].loader[LOADER_samples], atomic_load(&retirements) * 6);
    print_message("%lu snapshots during %lu retirements, %lu without an answer\n", looks,
                  atomic_load(&retirements), missed);
    assert_true(looks - missed > 100);
}

// ---- Names ------------------------------------------------------------------------------------------------

static bool all_are(const char *text, char letter) {
    size_t same = 0;
    while (same < STATS_NAME - 1 && text[same] == letter)
        same++;
    return same == STATS_NAME - 1 && !text[same];
}

static void rename_feed(uint64_t turn) {
    name_feed(&region->feeds[0], turn, (char)('a' + turn % 26));
}

// As when a record goes from one GPU to the next: its counters are the new one's.
static void rename_gpu(uint64_t turn) {
    struct stats_gpu *gpu = &region->gpus[0];
    stats_gpu_write_begin(gpu);
    gpu->used = turn;
    memset(gpu->uuid, (char)('a' + turn % 26), sizeof gpu->uuid - 1);
    for (int i = 0; i < GPU_COUNTERS; i++)
        atomic_store_explicit(&gpu->counters[i], 'a' + turn % 26, memory_order_relaxed);
    memset(gpu->name, (char)('a' + turn % 26), sizeof gpu->name - 1);
    stats_gpu_write_end(gpu);
}

// In a separate process, as in reality: the names themselves are not atomic.
static pid_t start_renaming(void (*rewrite)(uint64_t turn)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint64_t turn = 1;; turn++) {
        rewrite(turn);
        if (turn % 1000 == 0)
            usleep(300); // else hardly anybody would get an answer
    }
}

static void end_renaming(pid_t child) {
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void test_no_name_is_half_another(void **state) {
    (void)state;
    pid_t child = start_renaming(rename_feed);
    uint64_t answers = 0, end = monotonic_ns() + STORM_NS;
    while (monotonic_ns() < end) {
        stats_snapshot(region, snapshot);
        if (!snapshot->feed_count)
            continue;
        const struct stats_feed_snapshot *feed = &snapshot->feeds[0];
        char letter = (char)('a' + feed->id % 26);
        bool whole = all_are(feed->name, letter) && all_are(feed->dataset, letter) &&
                     feed->batch_size == (uint64_t)letter && feed->ring_bytes == (uint64_t)letter;
        if (!whole)
            end_renaming(child);
        assert_true(whole);
        answers++;
    }
    end_renaming(child);
    print_message("%lu answers\n", answers);
    assert_true(answers > 20); // a busy machine takes its time
}

static void test_no_gpu_is_half_another(void **state) {
    (void)state;
    pid_t child = start_renaming(rename_gpu);
    uint64_t answers = 0, end = monotonic_ns() + STORM_NS;
    while (monotonic_ns() < end) {
        stats_snapshot(region, snapshot);
        if (!snapshot->gpu_count)
            continue;
        const struct stats_gpu_snapshot *gpu = &snapshot->gpus[0];
        char letter = (char)('a' + gpu->started_ns % 26);
        bool whole = all_are(gpu->uuid, letter) && all_are(gpu->name, letter);
        for (int i = 0; i < GPU_COUNTERS; i++)
            whole = whole && gpu->counters[i] == (uint64_t)letter;
        if (!whole)
            end_renaming(child);
        assert_true(whole);
        answers++;
    }
    end_renaming(child);
    print_message("%lu answers\n", answers);
    assert_true(answers > 20); // a busy machine takes its time
}

static void test_a_writer_that_died_in_the_middle_holds_nobody_up(void **state) {
    (void)state;
    name_feed(&region->feeds[0], 1, 'a');
    name_feed(&region->feeds[1], 2, 'b');
    stats_feed_write_begin(&region->feeds[0]);
    region->feeds[0].name[0] = '?';
    rename_gpu(1);
    stats_gpu_write_begin(&region->gpus[0]);
    uint64_t from = monotonic_ns();
    stats_snapshot(region, snapshot);
    assert_true(monotonic_ns() - from < UINT64_C(2000000000));
    assert_int_equal(snapshot->feed_count, 1);
    assert_int_equal(snapshot->feeds[0].id, 2);
    assert_int_equal(snapshot->gpu_count, 0);
}

static _Atomic bool rewriting;

static void *play_slow_writer(void *unused) {
    (void)unused;
    stats_feed_write_begin(&region->feeds[0]);
    atomic_store(&rewriting, true);
    usleep(1000);
    stats_feed_write_end(&region->feeds[0]);
    return NULL;
}

// Readers must not leave out a feed because its writer lost the processor for a moment.
static void test_a_slow_writer_is_waited_for(void **state) {
    (void)state;
    int answers = 0;
    name_feed(&region->feeds[0], 1, 'a');
    for (int turn = 0; turn < 20; turn++) {
        pthread_t writer;
        atomic_store(&rewriting, false);
        assert_int_equal(pthread_create(&writer, NULL, play_slow_writer, NULL), 0);
        while (!atomic_load(&rewriting))
            usleep(50);
        stats_snapshot(region, snapshot);
        answers += snapshot->feed_count == 1;
        pthread_join(writer, NULL);
    }
    print_message("%d of 20\n", answers);
    assert_true(answers > 10); // of 20: on a busy machine the writer may take longer than anybody waits
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_region, end_region)
    const struct CMUnitTest tests[] = {
        CASE(test_no_sum_is_double_or_short),   CASE(test_no_name_is_half_another),
        CASE(test_no_gpu_is_half_another),      CASE(test_a_writer_that_died_in_the_middle_holds_nobody_up),
        CASE(test_a_slow_writer_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
