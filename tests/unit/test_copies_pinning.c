// Copies from slots that are pinned only when a batch needs them, and pinning fails.
#include "base/time.h"
#include "tests/unit/copies_fixture.h"

static struct registration registration;

// Nothing of the slots is pinned at first. `faults` are those of a handle that does nothing but pin them.
static void pin_slots_late(const char *faults) {
    open_with("");
    gpu_host_unregister(at.gpu, at.source.data);
    registration = (struct registration){
        .data = at.source.data, .slot_bytes = at.source.header->slot_bytes, .slot_count = SLOTS};
    registration.tails = calloc(SLOTS, sizeof *registration.tails);
    assert_non_null(registration.tails);
    assert_int_equal(setenv(GPU_HOST_FAULTS, faults, 1), 0);
    assert_done(gpu_open(&registration.gpu, "HOST-0", &said));
    at.copies.pinned = &registration;
}

static int end(void **state) {
    gpu_synchronize(at.gpu, NULL);
    registration_end(&registration);
    gpu_close(registration.gpu);
    return tear_down(state);
}

static void what_cannot_be_pinned_ends_the_pool_alone(void **state) {
    (void)state;
    pin_slots_late("pin_most=100");
    dispatch(0, 0, BATCH, 0);
    assert_int_equal(step(), POOL_REFUSED);
    assert_int_equal(said.code, -EIO);
    assert_non_null(strstr(said.text, "cannot pin 4096 bytes"));
    assert_false(is_copied(0));
    assert_done(gpu_synchronize(at.gpu, &said));
}

// The others are copied meanwhile.
static void a_lack_of_memory_passes(void **state) {
    (void)state;
    pin_slots_late("pin_most=100,pin_lacks=3");
    dispatch(0, 0, BATCH, 0);
    dispatch(1, 1, 0, 0);
    settle();
    assert_false(is_copied(0));
    assert_true(is_copied(1));
    for (int i = 0; i < 2; i++) {
        at.now += 100 * NS_PER_MS;
        settle();
        assert_false(is_copied(0));
    }
    at.now += 100 * NS_PER_MS;
    settle();
    check_slot(0);
    assert_int_equal(at.copies.waiting_count, 0);
}

static void a_lack_of_memory_that_lasts_ends_the_pool(void **state) {
    int err = 0;
    (void)state;
    pin_slots_late("pin_most=100,pin_lacks=1000");
    dispatch(0, 0, BATCH, 0);
    const uint64_t began = at.now;
    while (!err) {
        assert_true(at.now < began + 3 * NS_PER_S);
        err = step();
        at.now += 10 * NS_PER_MS;
    }
    assert_true(at.now >= began + 2 * NS_PER_S);
    assert_int_equal(err, POOL_REFUSED);
    assert_int_equal(said.code, -ENOMEM);
    assert_non_null(strstr(said.text, "no memory to pin"));
}

static void a_lost_gpu_is_not_blamed_on_the_pool(void **state) {
    (void)state;
    open_with("fail_copy=1");
    assert_int_equal(registration_judge(at.gpu, -EIO, &said), POOL_REFUSED);
    dispatch(0, 0, BATCH, 0);
    assert_int_equal(step(), -EIO);
    assert_int_equal(registration_judge(at.gpu, -EIO, &said), -EIO);
    assert_non_null(strstr(said.text, "lost"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_cannot_be_pinned_ends_the_pool_alone, end),
        cmocka_unit_test_teardown(a_lack_of_memory_passes, end),
        cmocka_unit_test_teardown(a_lack_of_memory_that_lasts_ends_the_pool, end),
        cmocka_unit_test_teardown(a_lost_gpu_is_not_blamed_on_the_pool, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
