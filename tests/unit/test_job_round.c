// How many chunks a loader takes at once, and when it waits.
#include "tests/unit/stage_fixture.h"

#define DEPTH 40u
// Samples of 32 KiB, two per chunk: a round takes four chunks.
static const struct ring_shape shape = {.slots = 1, .batch = 64, .chunk_samples = 2, .words = 4095};
#define ROUND_SAMPLES 8u
#define FIRST_CHUNKS  16u // of a new loader, one per round

static struct test_loader loader;

// One that has claimed enough to be past its first batch.
static int set_up(void **state) {
    (void)state;
    fixture_open(&loader, &shape, DEPTH, ON_ERROR_FAIL);
    loader.board.bytes_claimed = MIB;
    fixture_dispatch(&loader, 0, 0);
    return 0;
}

static int set_up_new(void **state) {
    int err = set_up(state);
    loader.board.bytes_claimed = 0;
    return err;
}

static int tear_down(void **state) {
    (void)state;
    fixture_close(&loader);
    return 0;
}

static bool turn(void) {
    return job_round(&loader.board, &loader.reader.reader, true);
}

static uint32_t unclaimed(void) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < shape.batch / shape.chunk_samples; i++)
        count += chunk_state(atomic_load(&ring_chunks(&loader.ring, 0)[i])) == CHUNK_FREE;
    return count;
}

// Another loader can have the rest of the batch meanwhile.
static void a_round_reads_a_few_large_samples(void **state) {
    (void)state;
    assert_true(turn());
    assert_int_equal(loader.reader.submitted, ROUND_SAMPLES);
    assert_int_equal(loader.reader.reader.in_flight, 0);
    assert_int_equal(unclaimed(), (shape.batch - ROUND_SAMPLES) / shape.chunk_samples);
    fixture_work(&loader);
    assert_int_equal(loader.reader.submitted, shape.batch);
    assert_int_equal(ring_slot_poll(&loader.ring, 0), RING_SLOT_READY);
}

// Nothing waits for reads until all that may be are in flight.
static void slow_storage_gets_as_many_as_it_may_have(void **state) {
    (void)state;
    loader.reader.most = 0;
    for (uint32_t round = 1; round <= DEPTH / ROUND_SAMPLES; round++) {
        assert_true(turn());
        assert_int_equal(loader.reader.reader.in_flight, round * ROUND_SAMPLES);
        assert_int_equal(loader.reader.waits, 0);
    }
    assert_true(turn());
    assert_int_equal(loader.reader.reader.in_flight, DEPTH);
    assert_int_equal(loader.reader.waits, 1);
    loader.reader.most = UINT32_MAX;
    fixture_work(&loader);
    assert_int_equal(ring_slot_poll(&loader.ring, 0), RING_SLOT_READY);
}

// ... nor when there is nothing left to claim.
static void the_last_reads_are_waited_for(void **state) {
    (void)state;
    loader.reader.most = 0;
    assert_true(turn());
    assert_true(job_round(&loader.board, &loader.reader.reader, false));
    assert_int_equal(loader.reader.reader.in_flight, ROUND_SAMPLES);
    assert_int_equal(loader.reader.waits, 1);
    loader.reader.most = UINT32_MAX;
    fixture_work(&loader);
}

// So that all loaders share the first batch, whichever is there first.
static void a_new_loader_takes_one_chunk_at_a_time(void **state) {
    (void)state;
    for (uint32_t round = 1; round <= FIRST_CHUNKS; round++) {
        assert_true(turn());
        assert_int_equal(loader.reader.submitted, round * shape.chunk_samples);
    }
    assert_true(turn());
    assert_int_equal(loader.reader.submitted, FIRST_CHUNKS * shape.chunk_samples + ROUND_SAMPLES);
    fixture_work(&loader);
}

static void a_new_loader_does_not_wait_between_them(void **state) {
    (void)state;
    loader.reader.most = 0;
    for (uint32_t round = 1; round <= FIRST_CHUNKS; round++) {
        assert_true(turn());
        assert_int_equal(loader.reader.reader.in_flight, round * shape.chunk_samples);
    }
    assert_int_equal(loader.reader.waits, 0);
    loader.reader.most = UINT32_MAX;
    fixture_work(&loader);
}

// A job that reads so much apart from the slot; it then is the first one in the queue. Returns what it keeps.
static uint64_t ends_with(struct job *job, uint64_t bytes) {
    STAILQ_REMOVE(&loader.board.idle, job, job, link);
    job_set_state(job, JOB_READING);
    loader.board.busy++;
    struct chunk_varying *varying = &job->plan.varying[0];
    job->plan.varying_count = 1;
    if (varying->room < bytes) {
        free(varying->memory);
        *varying = (struct chunk_varying){.memory = malloc(1), .room = bytes};
    }
    job_board_end(&loader.board, job);
    return varying->room;
}

// Memory that is given back and taken again is cleared by the kernel each time. Jobs are taken from the front.
static void idle_jobs_keep_some_memory(void **state) {
    (void)state;
    while (loader.board.job_count < 3)
        assert_int_equal(job_board_add(&loader.board, NULL), 0);
    struct job *jobs = loader.board.jobs;
    assert_int_equal(ends_with(&jobs[0], 5 * MIB), 5 * MIB);
    assert_int_equal(ends_with(&jobs[1], 2 * MIB), 2 * MIB);
    assert_int_equal(ends_with(&jobs[0], 0), 5 * MIB);
    assert_int_equal(ends_with(&jobs[2], 3 * MIB), 3 * MIB);
    assert_int_equal(jobs[1].plan.varying[0].room, 0);
    assert_int_equal(jobs[0].plan.varying[0].room, 5 * MIB);
    assert_int_equal(ends_with(&jobs[0], 9 * MIB), 0); // alone, it is too much
    assert_int_equal(jobs[2].plan.varying[0].room, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_loader_takes_one_chunk_at_a_time, set_up_new, tear_down),
        cmocka_unit_test_setup_teardown(a_new_loader_does_not_wait_between_them, set_up_new, tear_down),
        cmocka_unit_test_setup_teardown(a_round_reads_a_few_large_samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slow_storage_gets_as_many_as_it_may_have, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_reads_are_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(idle_jobs_keep_some_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
