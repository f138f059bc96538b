// From two looks at the statistics to what a feed is bound by.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "client/ctl/verdict.h"

#define S UINT64_C(1000000000)

static struct stats_snapshot before, now;

// Of two consumers and four loaders in ten seconds.
struct clocks {
    uint64_t loaders, copy, pool, rank, others; // seconds that consumers waited, of 20
    uint64_t ready;                             // of 10
    uint64_t room, io, decode, fill, cpu;       // of 40
    uint64_t copying, release;                  // of 10
};

static int set_up(void **state) {
    (void)state;
    memset(&before, 0, sizeof before);
    memset(&now, 0, sizeof now);
    before.pid = now.pid = 7;
    before.started_ns = now.started_ns = 50 * S;
    before.taken_ns = 110 * S;
    now.taken_ns = 120 * S;
    before.feed_count = now.feed_count = 1;
    before.gpu_count = now.gpu_count = 2;
    for (uint32_t i = 0; i < 2; i++)
        before.gpus[i].record = now.gpus[i].record = 3 + i;
    snprintf(before.gpus[0].uuid, STATS_NAME, "GPU-0");
    snprintf(before.gpus[1].uuid, STATS_NAME, "GPU-1");
    memcpy(now.gpus, before.gpus, sizeof now.gpus);
    before.feeds[0] = now.feeds[0] = (struct stats_feed_snapshot){
        .id = 3, .started_ns = 100 * S, .consumers = 2, .loaders = 4, .gpus = 1 << 3};
    return 0;
}

static void pass(const struct clocks *clocks) {
    struct stats_feed_snapshot *feed = &now.feeds[0];
    feed->feed[FEED_wait_loaders_ns] = clocks->loaders * S;
    feed->feed[FEED_wait_copy_ns] = clocks->copy * S;
    feed->feed[FEED_wait_pool_ns] = clocks->pool * S;
    feed->feed[FEED_wait_rank_ns] = clocks->rank * S;
    feed->feed[FEED_wait_others_ns] = clocks->others * S;
    feed->feed[FEED_consumer_wait_ns] =
        (clocks->loaders + clocks->copy + clocks->pool + clocks->rank + clocks->others) * S;
    feed->feed[FEED_ready_ns] = clocks->ready * S;
    feed->loader[LOADER_room_wait_ns] = clocks->room * S;
    feed->loader[LOADER_io_wait_ns] = clocks->io * S;
    feed->loader[LOADER_decode_ns] = clocks->decode * S;
    feed->loader[LOADER_fill_ns] = clocks->fill * S;
    feed->loader[LOADER_cpu_ns] = clocks->cpu * S;
    now.gpus[0].counters[GPU_copying_ns] = clocks->copying * S;
    now.gpus[0].counters[GPU_release_wait_ns] = clocks->release * S;
    now.gpus[1].counters[GPU_release_wait_ns] = 10 * S; // that of another feed
}

static void every_bottleneck_has_its_verdict(void **state) {
    (void)state;
    static const struct {
        struct clocks clocks;
        enum bound bound;
    } cases[] = {
        {{.room = 30, .fill = 10, .cpu = 10}, BOUND_CONSUMERS},
        {{.ready = 9, .room = 10, .fill = 30}, BOUND_CONSUMERS},
        {{.room = 10, .fill = 30}, BOUND_NONE},
        {{.loaders = 1, .fill = 40, .cpu = 40}, BOUND_NONE}, // a twentieth of the time
        {{.loaders = 10, .fill = 35, .decode = 5, .cpu = 40}, BOUND_LOADERS},
        {{.loaders = 10, .fill = 10, .decode = 25, .io = 5, .cpu = 35}, BOUND_DECODING},
        {{.loaders = 10, .fill = 10, .decode = 5, .io = 25, .cpu = 15}, BOUND_STORAGE},
        {{.loaders = 10, .fill = 10, .room = 30, .cpu = 15}, BOUND_HANDOVER},
        {{.loaders = 4, .copy = 6, .fill = 10, .room = 30, .copying = 9, .release = 1}, BOUND_BUS},
        {{.copy = 6, .room = 40, .copying = 1, .release = 8}, BOUND_POOL},
        {{.pool = 6, .room = 40, .copying = 1}, BOUND_POOL},
        {{.rank = 6, .loaders = 3, .room = 20, .fill = 20}, BOUND_RANK},
        {{.others = 20, .room = 40}, BOUND_NONE},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct verdict verdict;
        set_up(state);
        pass(&cases[i].clocks);
        verdict_of(&before, &now, &now.feeds[0], &verdict);
        if (verdict.bound != cases[i].bound)
            fail_msg("case %zu: %s instead of %s", i, verdict_word(verdict.bound),
                     verdict_word(cases[i].bound));
        assert_true(verdict.hint && verdict.hint[strlen(verdict.hint) - 1] == '.');
        // Without the earlier look it is the same: nothing had happened by then.
        now.feeds[0].started_ns = 110 * S;
        verdict_of(NULL, &now, &now.feeds[0], &verdict);
        assert_int_equal(verdict.bound, cases[i].bound);
    }
}

static void shares_are_of_the_time_that_passed(void **state) {
    (void)state;
    struct verdict verdict;
    const struct clocks clocks = {.loaders = 5,
                                  .copy = 5,
                                  .ready = 5,
                                  .room = 4,
                                  .io = 8,
                                  .decode = 12,
                                  .fill = 16,
                                  .cpu = 20,
                                  .copying = 3};
    pass(&clocks);
    verdict_of(&before, &now, &now.feeds[0], &verdict);
    assert_true(verdict.data_wait > 0.499 && verdict.data_wait < 0.501);
    assert_true(verdict.wait_loaders > 0.249 && verdict.wait_loaders < 0.251);
    assert_true(verdict.ready > 0.499 && verdict.ready < 0.501);
    assert_true(verdict.room_wait > 0.099 && verdict.room_wait < 0.101);
    assert_true(verdict.fill > 0.399 && verdict.fill < 0.401);
    assert_true(verdict.cpu > 0.499 && verdict.cpu < 0.501);
    assert_true(verdict.copying > 0.299 && verdict.copying < 0.301);
    assert_true(verdict.release_wait < 0.001);
}

static void without_consumers_it_is_idle(void **state) {
    (void)state;
    struct verdict verdict;
    now.feeds[0].consumers = 0;
    pass(&(const struct clocks){.loaders = 20, .io = 40});
    verdict_of(&before, &now, &now.feeds[0], &verdict);
    assert_int_equal(verdict.bound, BOUND_IDLE);
}

static void loaders_that_lack_cores_are_told_of(void **state) {
    (void)state;
    struct verdict verdict;
    pass(&(const struct clocks){.loaders = 20, .fill = 40, .cpu = 20});
    verdict_of(&before, &now, &now.feeds[0], &verdict);
    assert_int_equal(verdict.bound, BOUND_LOADERS);
    assert_non_null(strstr(verdict.hint, "other programs"));
    pass(&(const struct clocks){.loaders = 20, .fill = 40, .cpu = 38});
    verdict_of(&before, &now, &now.feeds[0], &verdict);
    assert_null(strstr(verdict.hint, "other programs"));
}

// Loaders write their own counters, and can write anything.
static void odd_counters_give_no_absurd_shares(void **state) {
    (void)state;
    struct verdict verdict;
    memset(now.feeds[0].loader, 0xff, sizeof now.feeds[0].loader);
    memset(now.feeds[0].feed, 0xff, sizeof now.feeds[0].feed);
    before.feeds[0].loader[LOADER_io_wait_ns] = UINT64_MAX;
    now.gpus[0].record = UINT32_MAX;
    verdict_of(&before, &now, &now.feeds[0], &verdict);
    const double shares[] = {verdict.data_wait, verdict.room_wait, verdict.io_wait, verdict.decode,
                             verdict.fill,      verdict.cpu,       verdict.ready,   verdict.wait_rank};
    for (size_t i = 0; i < COUNT_OF(shares); i++)
        assert_true(shares[i] >= 0 && shares[i] <= 1);
    now.taken_ns = 0;
    verdict_of(&before, &now, &now.feeds[0], &verdict);
    assert_true(verdict.data_wait >= 0 && verdict.data_wait <= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_bottleneck_has_its_verdict, set_up),
        cmocka_unit_test_setup(shares_are_of_the_time_that_passed, set_up),
        cmocka_unit_test_setup(without_consumers_it_is_idle, set_up),
        cmocka_unit_test_setup(loaders_that_lack_cores_are_told_of, set_up),
        cmocka_unit_test_setup(odd_counters_give_no_absurd_shares, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
