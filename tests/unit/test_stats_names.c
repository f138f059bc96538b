// What the statistics region has in words, and which of its records are free.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "shm/confinement.h"
#include "shm/reader_kind.h"
#include "shm/stats.h"
#include "shm/stats_read.h"

static void test_a_text_of_another_process_is_made_printable(void **state) {
    (void)state;
    char text[STATS_NAME], copy[STATS_NAME];
    for (int i = 1; i < 256; i++) {
        memset(text, i, sizeof text);
        assert_ptr_equal(stats_copy_text(copy, text), copy);
        assert_int_equal(strlen(copy), STATS_NAME - 1);
        for (size_t k = 0; k < STATS_NAME - 1; k++)
            assert_int_equal(copy[k], i >= ' ' && i <= '~' ? i : '?');
    }
    snprintf(text, sizeof text, "a name");
    assert_string_equal(stats_copy_text(copy, text), "a name");
}

static void test_the_first_record_that_nobody_uses(void **state) {
    (void)state;
    struct record {
        uint64_t other;
        _Atomic uint64_t user;
    } records[4] = {{9, 1}, {9, 0}, {0, 2}, {0, 0}};
    size_t word = offsetof(struct record, user);
    assert_ptr_equal(stats_unused_record(records, 4, sizeof *records, word), &records[1]);
    records[1].user = 3;
    assert_ptr_equal(stats_unused_record(records, 4, sizeof *records, word), &records[3]);
    assert_null(stats_unused_record(records, 3, sizeof *records, word));
    assert_null(stats_unused_record(records, 0, sizeof *records, word));
}

static void test_numbers_have_names_and_others_have_none(void **state) {
    (void)state;
    assert_string_equal(reader_kind_name(READER_PREAD), "pread");
    assert_string_equal(reader_kind_name(READER_PREAD + 1), "?");
    assert_string_equal(reader_kind_name(UINT32_MAX), "?");
    assert_string_equal(reader_reason_text(REASON_NONE), "");
    assert_string_equal(reader_reason_text(REASON_CONFIGURED), "configured");
    assert_string_equal(reader_reason_text(REASON_FOLDER + 1), "?");
    assert_string_equal(confinement_name(CONFINED_PRIVILEGES), "no_new_privs");
    assert_string_equal(confinement_name(CONFINED_URING), "io_uring");
    assert_string_equal(confinement_name(CONFINEMENT_PARTS), "?");
    assert_string_equal(stats_gpu_state_name(GPU_STATES - 1), "stopping");
    assert_string_equal(stats_gpu_state_name(GPU_STATES), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_of_another_process_is_made_printable),
        cmocka_unit_test(test_the_first_record_that_nobody_uses),
        cmocka_unit_test(test_numbers_have_names_and_others_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
