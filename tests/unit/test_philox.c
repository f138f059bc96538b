// Counted random numbers: the published test vectors of Philox4x32-10, and what the keys and counters are made of.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "order/philox.h"

// Of Random123's tests/kat_vectors.
static const struct {
    struct philox_block counter;
    struct philox_key key;
    struct philox_block random;
} published[] = {
    {{{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
    {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
     {{0xffffffff, 0xffffffff}},
     {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
    {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
     {{0xa4093822, 0x299f31d0}},
     {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
};

static void test_published_vectors(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(published); i++) {
        const struct philox_block random = philox(published[i].key, published[i].counter);
        assert_memory_equal(&random, &published[i].random, sizeof random);
    }
}

static void test_the_counter_is_position_and_epoch(void **state) {
    (void)state;
    const struct philox_block random = random_at(published[2].key, 0x0370734413198a2e, 0x85a308d3243f6a88);
    assert_memory_equal(&random, &published[2].random, sizeof random);
}

// The first two outputs of splitmix64 that starts with 0 are splitmix64(0) and splitmix64 of its first increment.
static void test_the_key_is_of_use_and_seed(void **state) {
    (void)state;
    const uint64_t zero = 0xe220a8397b1dcdaf, increment = 0x6e789e6aa1b965f4; // as published
    const struct philox_key key = random_key((enum random_use)0, zero ^ 0x9e3779b97f4a7c15);
    assert_int_equal(key.word[0], (uint32_t)increment);
    assert_int_equal(key.word[1], (uint32_t)(increment >> 32));
    const struct philox_key draw = random_key(RANDOM_DRAW_1, 5), other = random_key((enum random_use)2, 5);
    assert_memory_not_equal(&draw, &other, sizeof draw);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_vectors),
        cmocka_unit_test(test_the_counter_is_position_and_epoch),
        cmocka_unit_test(test_the_key_is_of_use_and_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
