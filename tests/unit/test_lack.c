// When what the machine is short of counts as lasting, and what that means for reads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/lack.h"
#include "daemon/loader/job.h"

#define START (100 * NS_PER_S)

// How many attempts of that length fail, with pauses, until the lack lasts.
static uint32_t attempts_of(uint64_t ns, uint64_t start_ns, struct lack *lack) {
    uint32_t count = 1;
    for (uint64_t now = start_ns; count < 1000; now += ns + LACK_PAUSE_NS, count++)
        if (lack_lasts(lack, now, now + ns))
            break;
    return count;
}

static void a_lack_lasts_after_two_seconds(void **state) {
    struct lack lack = {0};
    (void)state;
    assert_int_equal(attempts_of(0, START, &lack), 1 + LACK_MOST_NS / LACK_PAUSE_NS);
    assert_true(lack_lasts(&lack, lack.seen_ns, lack.seen_ns + LACK_PAUSE_NS));
}

static void attempts_may_be_long(void **state) {
    (void)state;
    for (uint64_t ns = NS_PER_S / 2; ns <= 8 * NS_PER_S; ns *= 2) {
        struct lack lack = {0};
        assert_int_equal(attempts_of(ns, START, &lack), 2 + (LACK_MOST_NS - 1) / (ns + LACK_PAUSE_NS));
    }
}

static void a_lack_that_was_over_begins_anew(void **state) {
    struct lack lack = {0};
    (void)state;
    attempts_of(0, START, &lack);
    assert_false(lack_lasts(&lack, lack.seen_ns + LACK_OVER_NS + 1, lack.seen_ns + LACK_OVER_NS + 1));
}

// However long the rounds between its attempts take, a read ends; and what decoding lacks costs reads nothing.
static void a_read_in_slow_rounds(void **state) {
    struct job_board board = {0};
    struct read_request request = {.result = -EMFILE};
    (void)state;
    board.decode_lack.since_ns = 1;
    board.decode_lack.seen_ns = monotonic_ns();
    assert_true(job_tries_again(&board, &request));
    assert_int_equal(request.attempts, 0);
    for (uint32_t attempt = 1; attempt <= JOB_ATTEMPTS; attempt++) {
        board.read_lack.since_ns = monotonic_ns() - LACK_MOST_NS;
        board.read_lack.seen_ns = monotonic_ns() - LACK_OVER_NS - NS_PER_MS;
        assert_int_equal(job_tries_again(&board, &request), attempt < JOB_ATTEMPTS);
        assert_int_equal(request.attempts, attempt);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lack_lasts_after_two_seconds),
        cmocka_unit_test(attempts_may_be_long),
        cmocka_unit_test(a_lack_that_was_over_begins_anew),
        cmocka_unit_test(a_read_in_slow_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
