// The clock of the event loop's turns, on a real loop: waits do not count, and the longest part names the turn.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/time.h"
#include "daemon/supervisor/turn_clock.h"

#define WAIT_MS 60u
#define WORK_NS (30 * NS_PER_MS)

struct world {
    uv_loop_t loop;
    uv_prepare_t before_wait;
    uv_timer_t timer;
    struct turn_clock clock;
    uint64_t work_ns, inner_ns;
};

static void spend(uint64_t ns) {
    struct timespec time = timespec_of_ns(ns);
    nanosleep(&time, NULL);
}

static void on_before_wait(uv_prepare_t *prepare) {
    struct world *world = prepare->data;
    turn_clock_end(&world->clock);
    turn_clock_begin(&world->clock);
}

static void on_timer(uv_timer_t *timer) {
    struct world *world = timer->data;
    struct turn_part outer = turn_clock_enter(&world->clock, TURN_FEED, 7);
    spend(world->work_ns);
    if (world->inner_ns) {
        struct turn_part before = turn_clock_enter(&world->clock, TURN_NEW_PROCESS, 9);
        assert_int_equal(before.work, TURN_FEED);
        spend(world->inner_ns);
        turn_clock_leave(&world->clock, before);
    }
    turn_clock_leave(&world->clock, outer);
    uv_close((uv_handle_t *)timer, NULL);
    uv_prepare_stop(&world->before_wait);
    turn_clock_end(&world->clock);
    uv_close((uv_handle_t *)&world->before_wait, NULL);
}

static void run(struct world *world, uint64_t work_ns, uint64_t inner_ns) {
    *world = (struct world){.work_ns = work_ns, .inner_ns = inner_ns};
    assert_int_equal(uv_loop_init(&world->loop), 0);
    assert_int_equal(turn_clock_init(&world->clock, &world->loop), 0);
    uv_prepare_init(&world->loop, &world->before_wait);
    uv_timer_init(&world->loop, &world->timer);
    world->before_wait.data = world->timer.data = world;
    uv_prepare_start(&world->before_wait, on_before_wait);
    uv_timer_start(&world->timer, on_timer, WAIT_MS, 0);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
}

static void test_waiting_is_no_turn(void **state) {
    struct world world;
    (void)state;
    for (int attempt = 0;; attempt++) { // another process may have the processor meanwhile
        run(&world, 0, 0);
        assert_true(world.clock.turns >= 2);
        if (world.clock.longest_ns < WAIT_MS * NS_PER_MS / 2)
            return;
        assert_true(attempt < 20);
    }
}

static void test_the_longest_part_names_the_turn(void **state) {
    char text[80];
    struct world world;
    (void)state;
    run(&world, WORK_NS, 0);
    assert_true(world.clock.longest_ns >= WORK_NS);
    assert_int_equal(world.clock.longest_part.work, TURN_FEED);
    assert_int_equal(world.clock.long_turns, 1);
    turn_clock_describe(world.clock.longest_part, text, sizeof text);
    assert_string_equal(text, "feed 7");
}

static void test_a_part_within_a_part(void **state) {
    char text[80];
    struct world world;
    (void)state;
    run(&world, NS_PER_MS, WORK_NS);
    turn_clock_describe(world.clock.longest_part, text, sizeof text);
    assert_string_equal(text, "starting a process of feed 9");
}

static void test_everything_has_a_description(void **state) {
    char text[80];
    (void)state;
    for (int work = 0; work < TURN_WORKS; work++) {
        turn_clock_describe((struct turn_part){(enum turn_work)work, 3}, text, sizeof text);
        assert_true(strlen(text) >= 5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waiting_is_no_turn),
        cmocka_unit_test(test_the_longest_part_names_the_turn),
        cmocka_unit_test(test_a_part_within_a_part),
        cmocka_unit_test(test_everything_has_a_description),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
