// From counters to rates: pure arithmetic.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "client/ctl/rates.h"
#include "shm/stats_read.h"

#define S UINT64_C(1000000000)

static void close_to(double value, double wanted) {
    if (value < wanted - 1e-6 || value > wanted + 1e-6)
        fail_msg("%g instead of %g", value, wanted);
}

static struct stats_feed_snapshot a_feed(void) {
    return (struct stats_feed_snapshot){
        .id = 3, .started_ns = 100 * S, .slot_count = 8, .slots_ready = 6, .consumers = 2, .loaders = 4};
}

static void rates_are_differences_over_time(void **state) {
    (void)state;
    struct stats_feed_snapshot before = a_feed(), after = a_feed();
    before.feed[FEED_samples] = 1000;
    after.feed[FEED_samples] = 3000;
    after.feed[FEED_batches] = 20;
    before.feed[FEED_bytes] = 500;
    after.feed[FEED_bytes] = 8500;
    after.loader[LOADER_bytes] = 4000;
    after.loader[LOADER_room_wait_ns] = 4 * S; // of four loaders in two seconds: half
    before.loader[LOADER_io_wait_ns] = 1 * S;
    after.loader[LOADER_io_wait_ns] = 3 * S;
    after.feed[FEED_consumer_wait_ns] = 1 * S; // of two consumers: a quarter
    after.loader[LOADER_read_errors] = 5;
    before.loader[LOADER_skipped] = 1;
    after.loader[LOADER_skipped] = 3;
    after.feed[FEED_children_replaced] = 1;
    after.feed[FEED_consumers_detached] = 7;
    before.feed[FEED_engine_images] = 10;
    after.feed[FEED_engine_images] = 50;
    before.loader[LOADER_unfit_format] = after.loader[LOADER_unfit_format] = 9;
    after.loader[LOADER_unfit_coding] = 3;
    after.loader[LOADER_unfit_steps] = 5;
    struct feed_rates rates;
    rates_between(&before, &after, 110 * S, 112 * S, &rates);
    close_to(rates.seconds, 2);
    close_to(rates.samples_per_s, 1000);
    close_to(rates.batches_per_s, 10);
    close_to(rates.bytes_per_s, 4000);
    close_to(rates.read_bytes_per_s, 2000);
    close_to(rates.engine_per_s, 20);
    close_to(rates.unfit_per_s, 4);
    close_to(rates.ring_full, 0.75);
    close_to(rates.room_wait, 0.5);
    close_to(rates.io_wait, 0.25);
    close_to(rates.consumer_wait, 0.25);
    assert_int_equal(rates.batches, 20);
    assert_int_equal(rates.read_errors, 5);
    assert_int_equal(rates.skipped, 2);
    assert_int_equal(rates.children_replaced, 1);
    assert_int_equal(rates.consumers_detached, 7);
}

static void without_an_earlier_look_it_is_since_the_start(void **state) {
    (void)state;
    struct stats_feed_snapshot after = a_feed();
    after.feed[FEED_samples] = 500;
    struct feed_rates rates;
    rates_between(NULL, &after, 12345, 105 * S, &rates);
    close_to(rates.seconds, 5);
    close_to(rates.samples_per_s, 100);
}

static void odd_counters_give_no_absurd_rates(void **state) {
    (void)state;
    struct stats_feed_snapshot before = a_feed(), after = a_feed();
    before.feed[FEED_samples] = 10; // seems to shrink: a loader's record was read in the middle of a change
    after.loader[LOADER_room_wait_ns] = 400 * S;
    after.feed[FEED_consumer_wait_ns] = 400 * S;
    after.consumers = after.loaders = after.slot_count = 0;
    struct feed_rates rates;
    rates_between(&before, &after, 110 * S, 110 * S, &rates);
    close_to(rates.samples_per_s, 0);
    close_to(rates.room_wait, 1);
    close_to(rates.consumer_wait, 1);
    close_to(rates.ring_full, 0);
    rates_between(&before, &after, 111 * S, 110 * S, &rates);
    assert_true(rates.seconds > 0);
}

// ---- GPUs --------------------------------------------------------------------------------------------------

static void rates_of_a_gpu(void **state) {
    (void)state;
    struct stats_gpu_snapshot before = {.started_ns = 100 * S}, after = {.started_ns = 100 * S};
    before.counters[GPU_copies] = 10;
    after.counters[GPU_copies] = 30;
    before.counters[GPU_copied_bytes] = 1000;
    after.counters[GPU_copied_bytes] = 41000;
    after.counters[GPU_copying_ns] = 1 * S;
    before.counters[GPU_release_wait_ns] = 1 * S;
    after.counters[GPU_release_wait_ns] = 3 * S / 2;
    before.counters[GPU_processes_replaced] = 2;
    after.counters[GPU_processes_replaced] = 3;
    struct gpu_rates rates;
    rates_of_gpu(&before, &after, 110 * S, 112 * S, &rates);
    close_to(rates.seconds, 2);
    close_to(rates.copies_per_s, 10);
    close_to(rates.bytes_per_s, 20000);
    close_to(rates.busy, 0.5);
    close_to(rates.release_wait, 0.25);
    close_to(rates.bus, 0); // not measured
    assert_int_equal(rates.copies, 20);
    assert_int_equal(rates.processes_replaced, 1);
    after.bus_bytes_per_s = 80000;
    rates_of_gpu(&before, &after, 110 * S, 112 * S, &rates);
    close_to(rates.bus, 0.25);
    snprintf(after.uuid, sizeof after.uuid, "HOST-0");
    rates_of_gpu(&before, &after, 110 * S, 112 * S, &rates);
    close_to(rates.bus, 0);                             // simulated: it has none
    rates_of_gpu(NULL, &after, 12345, 104 * S, &rates); // since its counters began
    close_to(rates.seconds, 4);
    close_to(rates.copies_per_s, 7.5);
    close_to(rates.release_wait, 0.375);
}

static void odd_counters_of_a_gpu_give_no_absurd_rates(void **state) {
    (void)state;
    struct stats_gpu_snapshot before = {.counters = {[GPU_copies] = 10, [GPU_copied_bytes] = 10}};
    struct stats_gpu_snapshot after = {.bus_bytes_per_s = 5};
    after.counters[GPU_copying_ns] = after.counters[GPU_release_wait_ns] = 400 * S;
    struct gpu_rates rates;
    rates_of_gpu(&before, &after, 111 * S, 110 * S, &rates);
    assert_true(rates.seconds > 0);
    close_to(rates.copies_per_s, 0);
    close_to(rates.bytes_per_s, 0);
    close_to(rates.bus, 0);
    close_to(rates.busy, 1);
    close_to(rates.release_wait, 1);
}

// ---- The daemon --------------------------------------------------------------------------------------------

static void the_daemon_is_alive_wedged_gone_or_stopped(void **state) {
    (void)state;
    struct stats_snapshot now = {.heartbeat_ns = 100 * S, .taken_ns = 100 * S + DAEMON_WEDGED_NS};
    assert_string_equal(daemon_state_name(rates_daemon_state(&now, true)), "alive");
    now.taken_ns++;
    assert_string_equal(daemon_state_name(rates_daemon_state(&now, true)), "wedged");
    assert_string_equal(daemon_state_name(rates_daemon_state(&now, false)), "gone");
    now.stopped = true;
    assert_string_equal(daemon_state_name(rates_daemon_state(&now, false)), "stopped");
    assert_string_equal(daemon_state_name(rates_daemon_state(&now, true)),
                        "stopped"); // the pid is another's by now
    now = (struct stats_snapshot){.heartbeat_ns = 101 * S, .taken_ns = 100 * S}; // it beat while we looked
    assert_string_equal(daemon_state_name(rates_daemon_state(&now, true)), "alive");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_differences_over_time),
        cmocka_unit_test(without_an_earlier_look_it_is_since_the_start),
        cmocka_unit_test(odd_counters_give_no_absurd_rates),
        cmocka_unit_test(rates_of_a_gpu),
        cmocka_unit_test(odd_counters_of_a_gpu_give_no_absurd_rates),
        cmocka_unit_test(the_daemon_is_alive_wedged_gone_or_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
