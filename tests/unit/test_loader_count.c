// How many loaders a feed is given, against feeds whose speed follows from a formula.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/loader_count.h"

#define TICK_NS (250 * NS_PER_MS)

// What a loader can fill in a second, how many it takes until more do not help, what the consumer takes, and how a
// loader's time divides.
struct machine {
    double each, saturates, consumer;
    double io;  // of what a loader does, the share that is waiting for storage
    double cpu; // of the rest, the share on a processor
};

struct feed {
    struct loader_count count;
    struct loader_work work;
    uint64_t now;
    double samples, wait, room, io, busy, cpu;
};

static double at_most(double value, double most) {
    return value < most ? value : most;
}

static void pass(struct feed *feed, const struct machine *machine, uint32_t ticks, uint32_t consumers,
                 uint32_t most) {
    for (uint32_t i = 0; i < ticks; i++) {
        const double n = feed->count.wanted, could = machine->each * at_most(n, machine->saturates);
        const double does = at_most(could, machine->consumer), spare = 1 - does / could;
        const double ns = (double)TICK_NS;
        feed->samples += does * ns / 1e9;
        feed->wait += does < machine->consumer ? (1 - does / machine->consumer) * ns : 0;
        feed->room += spare * n * ns;
        feed->io += (1 - spare) * machine->io * n * ns;
        feed->busy += (1 - spare) * (1 - machine->io) * n * ns;
        feed->cpu += (1 - spare) * (1 - machine->io) * machine->cpu * n * ns;
        feed->now += TICK_NS;
        feed->work = (struct loader_work){
            .samples = (uint64_t)feed->samples,
            .wait_ns = (uint64_t)feed->wait,
            .room_ns = (uint64_t)feed->room,
            .io_ns = (uint64_t)feed->io,
            .busy_ns = (uint64_t)feed->busy,
            .cpu_ns = (uint64_t)feed->cpu,
        };
        loader_count_look(&feed->count, &feed->work, consumers, 8, most, feed->now);
        assert_true(feed->count.wanted >= 1 && feed->count.wanted <= most);
    }
}

static struct feed begin(uint32_t loaders) {
    struct feed feed = {.now = 1000 * NS_PER_S};
    loader_count_init(&feed.count, loaders);
    return feed;
}

#define SECONDS(n) ((n)*NS_PER_S / TICK_NS)

static double speed(const struct feed *feed, const struct machine *machine) {
    return at_most(machine->each * at_most(feed->count.wanted, machine->saturates), machine->consumer);
}

static void it_comes_close_to_the_best_number_within_seconds(void **state) {
    (void)state;
    static const struct machine machines[] = {
        {1000, 64, 1e9, 0.95, 1},  // storage that takes any number
        {1000, 12, 1e9, 0.95, 1},  // ... twelve
        {1000, 5, 1e9, 0.9, 1},    //
        {1000, 1, 1e9, 0.99, 1},   // ... one
        {1000, 64, 6500, 0.95, 1}, // ... any number, and a consumer
        {1000, 8, 1e9, 0.0, 1},    // processors
        {1000, 3, 1e9, 0.1, 1},    // ... of which others use some
        {1000, 8, 2500, 0.0, 1},   // a consumer
        {1000, 8, 100, 0.0, 1},    //
    };
    for (size_t i = 0; i < COUNT_OF(machines); i++) {
        const uint32_t limit = machines[i].io >= 0.5 ? 64 : 8;
        const double best =
            at_most(machines[i].each * at_most(limit, machines[i].saturates), machines[i].consumer);
        struct feed feed = begin(4);
        pass(&feed, &machines[i], SECONDS(10), 1, 64);
        if (speed(&feed, &machines[i]) < 0.95 * best)
            fail_msg("machine %zu: %u loaders give %g of %g", i, feed.count.wanted,
                     speed(&feed, &machines[i]), best);
        // Over ten minutes, attempts included.
        double before = feed.samples;
        pass(&feed, &machines[i], SECONDS(600), 1, 64);
        if (feed.samples - before < 0.95 * 600 * best)
            fail_msg("machine %zu: %g of %g in the long run", i, (feed.samples - before) / 600, best);
    }
}

static void it_gives_back_what_is_not_needed(void **state) {
    (void)state;
    struct feed feed = begin(16);
    const struct machine slow = {1000, 64, 900, 0.0, 1};
    pass(&feed, &slow, SECONDS(20), 1, 64);
    assert_in_range(feed.count.wanted, 1, 2);
    const struct machine fast = {1000, 64, 1e9, 0.0, 1}; // and finds out when it is needed again
    pass(&feed, &fast, SECONDS(10), 1, 64);
    assert_int_equal(feed.count.wanted, 8); // as many as there are processors
}

static void it_stays_where_loaders_compete_for_processors(void **state) {
    (void)state;
    struct feed feed = begin(4);
    const struct machine machine = {1000, 64, 1e9, 0.0, 0.5};
    pass(&feed, &machine, SECONDS(30), 1, 64);
    assert_int_equal(feed.count.wanted, 4);
}

static void it_keeps_within_bounds(void **state) {
    (void)state;
    struct feed feed = begin(4);
    const struct machine machine = {1000, 64, 1e9, 0.95, 1};
    pass(&feed, &machine, SECONDS(30), 1, 6);
    assert_int_equal(feed.count.wanted, 6);
    pass(&feed, &machine, 1, 1, 2); // other feeds have come
    assert_int_equal(feed.count.wanted, 2);
}

static void without_consumers_nothing_changes(void **state) {
    (void)state;
    struct feed feed = begin(4);
    const struct machine machine = {1000, 64, 1e-9, 0.0, 1};
    pass(&feed, &machine, SECONDS(30), 0, 64);
    assert_int_equal(feed.count.wanted, 4);
}

// What is tried in vain is tried more and more rarely.
static void vain_attempts_become_rare(void **state) {
    (void)state;
    struct feed feed = begin(4);
    const struct machine machine = {1000, 2, 1e9, 0.95, 1};
    uint32_t changes = 0, as_before = 0, before = feed.count.wanted;
    for (uint32_t i = 0; i < SECONDS(1200); i++) {
        pass(&feed, &machine, 1, 1, 64);
        changes += feed.count.wanted != before;
        before = feed.count.wanted;
        as_before += before == 4;
    }
    assert_true(as_before > SECONDS(1200) * 95 / 100);
    assert_in_range(changes, 2, 2 * 16); // each attempt is two
}

static void words_that_lie(void **state) {
    (void)state;
    struct feed feed = begin(4);
    uint64_t random = 1;
    for (uint32_t i = 0; i < 100000; i++) {
        struct loader_work work;
        uint64_t *words = (uint64_t *)(void *)&work;
        for (size_t k = 0; k < sizeof work / sizeof *words; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            words[k] = random >> 60 ? random : UINT64_MAX;
        }
        feed.now += TICK_NS;
        assert_in_range(loader_count_look(&feed.count, &work, 1, 8, 64, feed.now), 1, 64);
    }
}

static void where_it_begins(void **state) {
    (void)state;
    assert_int_equal(loader_count_first(0), 1);
    assert_int_equal(loader_count_first(1), 1);
    assert_int_equal(loader_count_first(2), 2);
    assert_int_equal(loader_count_first(4), 4);
    assert_int_equal(loader_count_first(192), 4);
    assert_int_equal(loader_count_first(UINT32_MAX), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_close_to_the_best_number_within_seconds),
        cmocka_unit_test(it_gives_back_what_is_not_needed),
        cmocka_unit_test(it_stays_where_loaders_compete_for_processors),
        cmocka_unit_test(it_keeps_within_bounds),
        cmocka_unit_test(without_consumers_nothing_changes),
        cmocka_unit_test(vain_attempts_become_rare),
        cmocka_unit_test(words_that_lie),
        cmocka_unit_test(where_it_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
