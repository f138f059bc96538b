// What is near to a name that does not exist.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/names.h"
#include "base/sizes.h"

static void test_distance(void **state) {
    (void)state;
    assert_int_equal(name_distance("loaders", "loader"), 1);
    assert_int_equal(name_distance("", "abc"), 3);
    assert_int_equal(name_distance("abc", ""), 3);
    assert_int_equal(name_distance("kitten", "sitting"), 3);
    assert_int_equal(name_distance("MNIST", "mnist"), 0);
}

static void check(const char *wanted, const char *nearest) {
    static const char *const have[] = {"cifar100",          "fashion-mnist",    NULL,
                                       "openwebtext-train", "openwebtext-test", "x"};
    const char *found = name_nearest(wanted, have, COUNT_OF(have));
    if (nearest)
        assert_string_equal(found, nearest);
    else
        assert_null(found);
}

static void test_nearest(void **state) {
    (void)state;
    check("cifar10", "cifar100");
    check("CIFAR100", "cifar100");
    check("fashion_mnist", "fashion-mnist");
    check("fashoin-mnist", "fashion-mnist");
    check("fashion", "fashion-mnist");
    check("openwebtext-tset", "openwebtext-test");
    check("openwebtext", NULL); // which of them?
    check("imagenet", NULL);
    check("ci", NULL);
    check("y", NULL);
    check("", NULL);
    assert_null(name_nearest("cifar10", NULL, 0));
}

static void test_dtypes(void **state) {
    (void)state;
    static const struct {
        const char *name, *nearest;
    } cases[] = {{"uint8", "u8"},      {"float32", "f32"},  {"double", "f64"}, {"torch.bfloat16", "bf16"},
                 {"np.int64", "i64"},  {"uint16_t", "u16"}, {"U8", "u8"},      {"Float16", "f16"},
                 {"complex64", "c64"}, {"boolean", "bool"}, {"long", "i64"},   {"u8", "u8"},
                 {"string", NULL},     {"u7", NULL},        {"", NULL},        {"_t", NULL}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *found = dtype_nearest(cases[i].name);
        if (cases[i].nearest)
            assert_string_equal(found, cases[i].nearest);
        else
            assert_null(found);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distance),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_dtypes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
