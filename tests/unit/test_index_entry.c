// The rounds of building an index, and when a failure is not the last word.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/index_entry.h"

#define NOW (1000 * NS_PER_S)

static struct index_entry failed(int code, uint64_t now) {
    struct index_entry entry = {0};
    index_entry_queue(&entry);
    index_entry_begin(&entry);
    index_entry_end(&entry, false, code, "why", now);
    return entry;
}

static void causes_that_may_pass(void **state) {
    static const int passing[] = {-ENOSPC, -EMFILE, -ENFILE, -ENOMEM, -EIO, -ESTALE},
                     lasting[] = {-ENODATA, -EINVAL, -EPROTO, -ENOENT, -EACCES};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(passing); i++) {
        struct index_entry entry = failed(passing[i], NOW);
        assert_int_equal(entry.state, INDEX_FAILED);
        assert_false(index_entry_is_due(&entry, NOW + NS_PER_S - 1));
        assert_true(index_entry_is_due(&entry, NOW + NS_PER_S));
    }
    for (size_t i = 0; i < COUNT_OF(lasting); i++) {
        struct index_entry entry = failed(lasting[i], NOW);
        assert_false(index_entry_is_due(&entry, UINT64_MAX));
    }
}

static void pauses_grow(void **state) {
    struct index_entry entry = failed(-EIO, NOW);
    uint64_t now = NOW, pause = NS_PER_S;
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        assert_int_equal(entry.retry_ns, now + pause);
        now = entry.retry_ns;
        pause = min_u64(2 * pause, 64 * NS_PER_S);
        index_entry_queue(&entry);
        assert_false(index_entry_is_due(&entry, UINT64_MAX)); // not twice
        index_entry_begin(&entry);
        index_entry_end(&entry, false, -EIO, "why", now);
    }
    index_entry_queue(&entry);
    index_entry_begin(&entry);
    index_entry_end(&entry, true, 0, "there", now);
    assert_int_equal(entry.state, INDEX_OPEN);
    assert_int_equal(entry.failures, 0);
    assert_int_equal(entry.rounds, 42);
}

// One that is served stays open, whatever a check of its files finds.
static void checks_do_not_take_away(void **state) {
    struct index_entry entry = {0};
    (void)state;
    assert_int_equal(index_entry_want(&entry, true), 1);
    index_entry_begin(&entry);
    assert_int_equal(index_entry_want(&entry, true), 2); // it may have looked at the files already
    index_entry_end(&entry, true, -EIO, "why", NOW);
    assert_int_equal(entry.state, INDEX_QUEUED);
    assert_int_equal(entry.retry_ns, 0);
    index_entry_begin(&entry);
    index_entry_end(&entry, true, -EIO, "why", NOW);
    assert_int_equal(entry.state, INDEX_OPEN);
    assert_false(index_entry_is_due(&entry, UINT64_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causes_that_may_pass),
        cmocka_unit_test(pauses_grow),
        cmocka_unit_test(checks_do_not_take_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
