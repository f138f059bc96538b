// Schedules in which a loader is killed and the kernel keeps its reads for a while.
#include "tests/unit/ring_plots.h"

static void test_a_loader_that_hangs(void **state) {
    (void)state;
    explore(&(struct plot){.shape = {2, 2, 1, 1},
                           .batches = 2,
                           .count = 2,
                           .hangs = true,
                           .loaders = 2,
                           .preemptions = 1,
                           .crashes = 1});
}

static void test_a_repair_and_a_loader_that_hangs(void **state) {
    (void)state;
    explore(&(struct plot){.shape = {2, 2, 2, 1},
                           .batches = 2,
                           .count = 2,
                           .skips = true,
                           .hangs = true,
                           .loaders = 2,
                           .preemptions = 1,
                           .crashes = 1});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_loader_that_hangs),
        cmocka_unit_test(test_a_repair_and_a_loader_that_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
