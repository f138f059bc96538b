// The clock of a simulated GPU, which gains 0.4 ms per second, and how a timeline makes up for that.
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/transfer/gpu_clock.h"
#include "tests/unit/gpu_fixture.h"

#define TOLERANCE_NS (200 * NS_PER_US)

static struct gpu_clock clock_of_gpu;
static gpu_mark mark;

static void open_clock(const char *special) {
    open_fixture(special);
    clock_of_gpu = (struct gpu_clock){0};
    assert_done(gpu_mark_create(fixture.gpu, &mark, &said));
}

static int close_clock(void **state) {
    open_gate();
    gpu_stream_destroy(fixture.gpu, fixture.stream);
    fixture.stream = NULL;
    gpu_mark_destroy(fixture.gpu, mark);
    gpu_clock_close(&clock_of_gpu);
    return close_fixture(state);
}

// Of a mark that the GPU comes to at once: the largest of a few may be late because another process ran.
static uint64_t least_error(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        assert_done(gpu_mark_put(fixture.gpu, fixture.stream, mark, &said));
        assert_done(gpu_synchronize(fixture.gpu, &said));
        const uint64_t now = monotonic_ns(), then = gpu_clock_of(&clock_of_gpu, mark);
        assert_int_not_equal(then, 0);
        least = min_u64(least, now > then ? now - then : then - now);
    }
    return least;
}

// Anew. Attempts fail where other processes interrupt them.
static void align(void) {
    const uint64_t until = monotonic_ns() + 20 * NS_PER_S, before = clock_of_gpu.aligned_ns;
    while (!gpu_clock_is_aligned(&clock_of_gpu, fixture.gpu) || clock_of_gpu.aligned_ns == before) {
        assert_false(clock_of_gpu.failed);
        assert_true(monotonic_ns() < until);
        nap_ms(1);
    }
}

static void test_a_mark_waits_for_what_is_queued_before_it(void **state) {
    (void)state;
    open_clock("");
    align();
    const uint64_t before = monotonic_ns();
    assert_done(gpu_host_stream_call(fixture.gpu, fixture.stream, stand_at_gate, NULL, &said));
    assert_done(gpu_mark_put(fixture.gpu, fixture.stream, mark, &said));
    nap_ms(30);
    assert_int_equal(gpu_clock_of(&clock_of_gpu, mark), 0);
    open_gate();
    assert_done(gpu_synchronize(fixture.gpu, &said));
    const uint64_t then = gpu_clock_of(&clock_of_gpu, mark);
    assert_true(then > before + 30 * NS_PER_MS - TOLERANCE_NS);
    assert_true(then < monotonic_ns() + TOLERANCE_NS);
}

static void test_a_mark_can_be_earlier_than_the_alignment(void **state) {
    (void)state;
    open_clock("");
    assert_done(gpu_mark_put(fixture.gpu, fixture.stream, mark, &said));
    assert_done(gpu_synchronize(fixture.gpu, &said));
    const uint64_t then = monotonic_ns();
    assert_int_equal(gpu_clock_of(&clock_of_gpu, mark), 0); // not aligned
    nap_ms(50);
    align();
    const uint64_t found = gpu_clock_of(&clock_of_gpu, mark);
    assert_true(found < then + TOLERANCE_NS);
    assert_true(found + 20 * NS_PER_MS > then);
}

static void test_a_clock_that_drifts_is_aligned_again(void **state) {
    (void)state;
    open_clock("");
    align();
    assert_true(least_error() < TOLERANCE_NS);
    nap_ms(1500);
    assert_true(least_error() > 400 * NS_PER_US); // nobody has asked for an alignment
    align();
    assert_true(least_error() < TOLERANCE_NS);
}

static void test_an_old_alignment_does_not_count(void **state) {
    (void)state;
    open_clock("");
    align();
    assert_done(gpu_mark_put(fixture.gpu, fixture.stream, mark, &said));
    assert_done(gpu_synchronize(fixture.gpu, &said));
    assert_int_not_equal(gpu_clock_of(&clock_of_gpu, mark), 0);
    clock_of_gpu.aligned_ns -= 3 * NS_PER_S;
    assert_int_equal(gpu_clock_of(&clock_of_gpu, mark), 0);
    clock_of_gpu.tried_ns = monotonic_ns(); // just now, in vain
    assert_false(gpu_clock_is_aligned(&clock_of_gpu, fixture.gpu));
}

static void test_a_lost_gpu_has_no_clock(void **state) {
    (void)state;
    open_clock("fail_copy=1");
    align();
    assert_int_equal(copy(0, 0, PAGE), -EIO);
    clock_of_gpu.aligned_ns = clock_of_gpu.tried_ns = 0;
    assert_false(gpu_clock_is_aligned(&clock_of_gpu, fixture.gpu));
    assert_true(clock_of_gpu.failed);
    assert_int_equal(gpu_clock_of(&clock_of_gpu, mark), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_mark_waits_for_what_is_queued_before_it, close_clock),
        cmocka_unit_test_teardown(test_a_mark_can_be_earlier_than_the_alignment, close_clock),
        cmocka_unit_test_teardown(test_a_clock_that_drifts_is_aligned_again, close_clock),
        cmocka_unit_test_teardown(test_an_old_alignment_does_not_count, close_clock),
        cmocka_unit_test_teardown(test_a_lost_gpu_has_no_clock, close_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
