// Schedules of loaders that finish, fail or are killed.
#include "tests/unit/ring_plots.h"

static void test_one_loader(void **state) {
    (void)state;
    explore(&(struct plot){.shape = {1, 1, 1, 1}, .batches = 3, .count = 1, .loaders = 1, .preemptions = 3});
}

static void test_one_slot_of_one_chunk(void **state) {
    (void)state;
    explore(&(struct plot){.shape = {1, 1, 1, 1}, .batches = 2, .count = 1, .loaders = 2, .preemptions = 2});
}

// With three batches, the first place in the queue is used again.
static void test_a_queue_that_wraps(void **state) {
    (void)state;
    explore(&(struct plot){.shape = {1, 1, 1, 1}, .batches = 3, .count = 1, .loaders = 2, .preemptions = 2});
}

static void test_one_slot_of_one_chunk_and_a_death(void **state) {
    (void)state;
    explore(&(struct plot){
        .shape = {1, 1, 1, 1}, .batches = 2, .count = 1, .loaders = 2, .preemptions = 2, .crashes = 1});
}

static void test_one_slot_of_two_chunks_and_a_death(void **state) {
    (void)state;
    explore(&(struct plot){
        .shape = {1, 2, 1, 1}, .batches = 2, .count = 2, .loaders = 2, .preemptions = 1, .crashes = 1});
}

static void test_two_slots_of_two_chunks_and_a_death(void **state) {
    (void)state;
    explore(&(struct plot){
        .shape = {2, 2, 1, 1}, .batches = 3, .count = 2, .loaders = 2, .preemptions = 1, .crashes = 1});
}

static void test_a_stripe_each(void **state) {
    (void)state;
    explore(&(struct plot){
        .shape = {1, 2, 1, 1}, .batches = 2, .count = 2, .striped = true, .loaders = 2, .preemptions = 2});
}

static void test_a_stripe_each_and_a_death(void **state) {
    (void)state;
    explore(&(struct plot){.shape = {2, 2, 1, 1},
                           .batches = 3,
                           .count = 2,
                           .striped = true,
                           .loaders = 2,
                           .preemptions = 1,
                           .crashes = 1});
}

static void test_a_repair_and_a_death(void **state) {
    (void)state;
    explore(&(struct plot){.shape = {1, 2, 2, 1},
                           .batches = 1,
                           .count = 2,
                           .skips = true,
                           .loaders = 2,
                           .preemptions = 1,
                           .crashes = 1});
}

static void test_two_failures(void **state) {
    (void)state;
    explore(&(struct plot){
        .shape = {1, 2, 1, 1}, .batches = 1, .count = 2, .fails = true, .loaders = 2, .preemptions = 2});
}

static void test_two_failures_and_a_death(void **state) {
    (void)state;
    explore(&(struct plot){.shape = {1, 2, 1, 1},
                           .batches = 1,
                           .count = 2,
                           .fails = true,
                           .loaders = 2,
                           .preemptions = 2,
                           .crashes = 1});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_loader),
        cmocka_unit_test(test_one_slot_of_one_chunk),
        cmocka_unit_test(test_a_queue_that_wraps),
        cmocka_unit_test(test_one_slot_of_one_chunk_and_a_death),
        cmocka_unit_test(test_one_slot_of_two_chunks_and_a_death),
        cmocka_unit_test(test_two_slots_of_two_chunks_and_a_death),
        cmocka_unit_test(test_a_stripe_each),
        cmocka_unit_test(test_a_stripe_each_and_a_death),
        cmocka_unit_test(test_a_repair_and_a_death),
        cmocka_unit_test(test_two_failures),
        cmocka_unit_test(test_two_failures_and_a_death),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
