// Replacements of samples that cannot be read: golden vectors, and that every sample is as likely.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "order/replace.h"
#include "tests/unit/replace_vectors.h"

static void test_golden_numbers(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(replace_vectors); i++)
        for (uint32_t attempt = 1; attempt <= REPLACE_ATTEMPTS; attempt++)
            assert_int_equal(replace_number(replace_vectors[i].seed, replace_vectors[i].epoch,
                                            replace_vectors[i].position, attempt, replace_vectors[i].samples),
                             replace_vectors[i].numbers[attempt - 1]);
}

// Chi-square over 100 samples, 99 degrees of freedom: 149 is exceeded once in 1,000 times by chance, and the numbers
// are always the same.
static void test_every_sample_is_as_likely(void **state) {
    (void)state;
    enum {
        SAMPLES = 100,
        EACH = 1000
    };
    uint32_t found[SAMPLES] = {0};
    for (uint64_t position = 0; position < SAMPLES * EACH / REPLACE_ATTEMPTS; position++)
        for (uint32_t attempt = 1; attempt <= REPLACE_ATTEMPTS; attempt++)
            found[replace_number(3, 5, position, attempt, SAMPLES)]++;
    double chi_square = 0;
    for (uint32_t i = 0; i < SAMPLES; i++)
        chi_square += ((double)found[i] - EACH) * ((double)found[i] - EACH) / EACH;
    assert_true(chi_square > 50 && chi_square < 149);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_numbers),
        cmocka_unit_test(test_every_sample_is_as_likely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
