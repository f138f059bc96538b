// Parts of a dataset as text.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "daemon/config/part.h"

static void test_what_shares_mean(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t of, first, count;
    } parts[] = {
        {"..", 7, 0, 7},
        {"0%..90%", 10, 0, 9},
        {"90%..100%", 10, 9, 1},
        {"90%..", 10, 9, 1},
        {"..90%", 10, 0, 9},
        {" 10 .. 20 ", 100, 10, 10},
        {"10..", 100, 10, 90},
        {"..1000", 1281167, 0, 1000},
        {"100..50%", 1000, 100, 400},
        {"33.3333%..66.6667%", 3, 0, 2},
        {"0.5%..1%", 1000, 5, 5},
        {"0..100%", UINT64_MAX >> 1, 0, UINT64_MAX >> 1},
    };
    for (size_t at = 0; at < COUNT_OF(parts); at++) {
        struct part part;
        uint64_t first, count;
        assert_true(part_parse(parts[at].text, &part));
        assert_int_equal(part_of(&part, parts[at].of, &first, &count), 0);
        assert_int_equal(first, parts[at].first);
        assert_int_equal(count, parts[at].count);
    }
}

static void test_what_is_no_share(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "90%",
                                        "0%-90%",
                                        "0%..90% of",
                                        "-1..5",
                                        "0%..101%",
                                        "1.5..2",
                                        "0%...5%",
                                        ".5%..1%",
                                        "1.%..2%",
                                        "1e3..",
                                        "0%..1%..",
                                        "1.23456%..",
                                        "%..1%",
                                        "1 %..2%",
                                        "0x10..20",
                                        "100.0001%",
                                        "..100.0001%",
                                        "18446744073709551616..",
                                        "0..18446744073709551615%"};
    for (size_t at = 0; at < COUNT_OF(texts); at++) {
        struct part part;
        assert_false(part_parse(texts[at], &part));
    }
}

static void test_parts_that_a_dataset_does_not_have(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t of;
        int err;
    } parts[] = {
        {"0..11", 10, -ERANGE},  {"11..", 10, -ERANGE},      {"60%..50%", 10, -ERANGE},
        {"5..20%", 10, -ERANGE}, {"50%..50%", 10, -ENODATA}, {"0%..1%", 10, -ENODATA},
        {"10..", 10, -ENODATA},
    };
    for (size_t at = 0; at < COUNT_OF(parts); at++) {
        struct part part;
        uint64_t first, count;
        assert_true(part_parse(parts[at].text, &part));
        assert_int_equal(part_of(&part, parts[at].of, &first, &count), parts[at].err);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_shares_mean),
        cmocka_unit_test(test_what_is_no_share),
        cmocka_unit_test(test_parts_that_a_dataset_does_not_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
