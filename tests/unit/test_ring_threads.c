// A storm on one ring: threads play loaders, supervisor and reader, loaders die at every point of their
// work, and each batch must come once, whole, and without anybody having slept over it. Meant for the
// thread sanitizer too.
#include <fcntl.h>
#include <pthread.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "shm/ring_supervisor.h"
#include "tests/unit/ring_storm.h"

#define LOADERS_MOST 6

struct threads {
    struct storm storm;
    uint32_t loaders;
    uint32_t death_of;                  // a loader dies in one of this many turns
    int dead[2], ready[2], released[2]; // pipes: owners, slots, slots
    _Atomic uint32_t next_owner, running;
    _Atomic bool stop;
    const char *complaint;
    uint8_t *seen; // by sequence
};

static struct threads *stage;

static bool send_number(int fd, uint32_t number) {
    return write(fd, &number, sizeof number) == (ssize_t)sizeof number;
}

static bool receive_number(int fd, uint32_t *number) {
    return read(fd, number, sizeof *number) == (ssize_t)sizeof *number;
}

// A loader that has died is followed by one with another number and a map that knows nothing.
static void *play_loaders(void *argument) {
    struct threads *threads = argument;
    uint32_t owner = atomic_fetch_add(&threads->next_owner, 1);
    uint64_t random = owner * UINT64_C(0x9e3779b97f4a7c15);
    struct ring ring = threads->storm.ring;
    ring.stripe = (owner - 1) % threads->loaders; // others may have died before it began
    ring.stripes = threads->loaders;
    while (!atomic_load(&threads->stop)) {
        bool doomed = fixture_random(&random) % threads->death_of == 0;
        enum storm_death death = doomed ? 1 + fixture_random(&random) % (STORM_DEATHS - 1) : DIE_NOT;
        if (storm_turn(&threads->storm, &ring, owner, death))
            continue;
        if (!send_number(threads->dead[1], owner))
            break;
        owner = atomic_fetch_add(&threads->next_owner, 1);
        ring.urgent_seen = 0;
    }
    atomic_fetch_sub(&threads->running, 1);
    return NULL;
}

static void *play_reader(void *argument) {
    struct threads *threads = argument;
    uint32_t slot;
    while (receive_number(threads->ready[0], &slot)) {
        uint64_t sequence = ring_slot(&threads->storm.ring, slot)->sequence;
        if (!storm_batch_is_right(&threads->storm, slot))
            threads->complaint = "a batch holds wrong bytes";
        if (threads->seen[sequence]++)
            threads->complaint = "a batch came twice";
        send_number(threads->released[1], slot);
    }
    close_fd(&threads->released[1]); // all that was complained of is said before this
    return NULL;
}

static bool hand_to_reader(struct storm *storm, uint32_t slot) {
    (void)storm;
    return send_number(stage->ready[1], slot);
}

// Hears as the supervisor does: eventfd, releases, deaths. Returns what went wrong.
static const char *play_supervisor(struct threads *threads) {
    struct storm *storm = &threads->storm;
    uint64_t released = 0;
    storm_dispatch(storm);
    while (released < storm->batches) {
        uint32_t number;
        struct pollfd ears[] = {
            {storm->event_fd, POLLIN, 0}, {threads->released[0], POLLIN, 0}, {threads->dead[0], POLLIN, 0}};
        if (poll(ears, COUNT_OF(ears), STORM_SILENCE_MS) == 0)
            return "a wake-up was lost";
        if (ears[0].revents)
            storm_hear_event(storm);
        if (ears[1].revents && receive_number(threads->released[0], &number)) {
            storm_release(storm, number);
            released++;
        }
        if (ears[2].revents && receive_number(threads->dead[0], &number))
            storm_bury(storm, number);
        if (!storm_look(storm, hand_to_reader))
            return "a slot is not what was dispatched";
        storm_dispatch(storm);
        // Batches without samples are complete at once.
        if (!storm_look(storm, hand_to_reader))
            return "a slot is not what was dispatched";
    }
    return NULL;
}

static void stop_loaders(struct threads *threads) {
    atomic_store(&threads->stop, true);
    while (atomic_load(&threads->running)) {
        // Also those that are just about to sleep.
        ring_wake_loaders(&threads->storm.ring, UINT32_MAX);
        usleep(500);
    }
}

static const char *run_threads(struct threads *threads) {
    pthread_t loaders[LOADERS_MOST] = {0}, reader;
    stage = threads;
    atomic_store(&threads->running, threads->loaders);
    assert_int_equal(pthread_create(&reader, NULL, play_reader, threads), 0);
    for (uint32_t i = 0; i < threads->loaders; i++)
        assert_int_equal(pthread_create(&loaders[i], NULL, play_loaders, threads), 0);
    const char *complaint = play_supervisor(threads);
    stop_loaders(threads);
    for (uint32_t i = 0; i < threads->loaders; i++)
        pthread_join(loaders[i], NULL);
    close_fd(&threads->ready[1]);
    pthread_join(reader, NULL);
    return complaint ? complaint : threads->complaint;
}

static void run_storm(const struct ring_shape *shape, uint32_t loaders, uint32_t death_of, uint64_t batches,
                      bool skips) {
    struct threads threads = {.loaders = loaders, .death_of = death_of, .next_owner = 1};
    storm_open(&threads.storm, shape, batches, skips);
    threads.seen = calloc(batches, 1);
    assert_non_null(threads.seen);
    assert_int_equal(pipe2(threads.dead, O_CLOEXEC), 0);
    assert_int_equal(pipe2(threads.ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(threads.released, O_CLOEXEC), 0);
    const char *complaint = run_threads(&threads);
    print_message("%lu batches, %u loaders lived, %lu chunks recovered\n", threads.storm.finished,
                  atomic_load(&threads.next_owner) - 1, threads.storm.recovered);
    if (complaint)
        fail_msg("%s", complaint);
    for (uint64_t sequence = 0; sequence < batches; sequence++)
        assert_int_equal(threads.seen[sequence], 1);
    if (death_of < 1000)
        assert_true(threads.storm.recovered > batches / death_of / 4);
    close_fd(&threads.dead[0]);
    close_fd(&threads.dead[1]);
    close_fd(&threads.ready[0]);
    close_fd(&threads.released[0]);
    free(threads.seen);
    storm_close(&threads.storm);
}

static void test_one_slot_one_chunk_one_loader(void **state) {
    (void)state;
    run_storm(&(struct ring_shape){1, 4, 4, 2}, 1, 1u << 30, 10000, false);
}

static void test_all_sleep_all_the_time(void **state) {
    (void)state;
    run_storm(&(struct ring_shape){1, 3, 1, 2}, 6, 1u << 30, 10000, false);
}

static void test_many_small_chunks(void **state) {
    (void)state;
    run_storm(&(struct ring_shape){8, 64, 5, 4}, 4, 1u << 30, 10000, false);
}

static void test_loaders_die(void **state) {
    (void)state;
    run_storm(&(struct ring_shape){4, 24, 4, 3}, 4, 20, 10000, false);
}

static void test_loaders_die_with_hardly_a_slot(void **state) {
    (void)state;
    run_storm(&(struct ring_shape){1, 8, 3, 2}, 3, 6, 5000, false);
}

static void test_loaders_die_over_samples_that_cannot_be_read(void **state) {
    (void)state;
    run_storm(&(struct ring_shape){3, 70, 9, 2}, 4, 25, 6000, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_slot_one_chunk_one_loader),
        cmocka_unit_test(test_all_sleep_all_the_time),
        cmocka_unit_test(test_many_small_chunks),
        cmocka_unit_test(test_loaders_die),
        cmocka_unit_test(test_loaders_die_with_hardly_a_slot),
        cmocka_unit_test(test_loaders_die_over_samples_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
