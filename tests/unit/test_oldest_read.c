// What a loader waits for: how it finds out, and what the supervisor makes of what it says.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/loader/job_oldest.h"
#include "daemon/supervisor/processes/loader_process.h"

// ---- In the loader -----------------------------------------------------------------------------------------

static struct read_request requests[3][2];
static struct job jobs[3];
static struct job_board board;

// Three jobs of two requests each, which last moved at 10, 20 and 30; those of job i are in files 2 i and 2 i + 1.
static int set_up(void **state) {
    (void)state;
    board = (struct job_board){.jobs = jobs, .job_count = COUNT_OF(jobs)};
    for (uint32_t i = 0; i < COUNT_OF(jobs); i++) {
        jobs[i] = (struct job){.state = JOB_READING, .submitted = 2, .moved_ns = 10ull * (i + 1)};
        jobs[i].plan.requests = requests[i];
        for (uint32_t k = 0; k < 2; k++)
            requests[i][k] = (struct read_request){.file = 2 * i + k};
    }
    return 0;
}

static void nothing_is_read(void **state) {
    (void)state;
    jobs[0].state = JOB_IDLE;
    jobs[1].state = JOB_STAGING;
    jobs[2].submitted = 0;
    assert_false(job_oldest_read(&board).any);
    board.job_count = 0;
    assert_false(job_oldest_read(&board).any);
}

static void the_job_that_has_not_moved_for_longest(void **state) {
    (void)state;
    struct oldest_read oldest = job_oldest_read(&board);
    assert_true(oldest.any);
    assert_int_equal(oldest.since_ns, 10);
    assert_int_equal(oldest.file, 0);
    requests[0][0].finished = true;
    assert_int_equal(job_oldest_read(&board).file, 1);
    jobs[0].state = JOB_STAGING;
    assert_int_equal(job_oldest_read(&board).since_ns, 20);
    assert_int_equal(job_oldest_read(&board).file, 2);
}

static void a_read_that_was_split(void **state) {
    (void)state;
    requests[0][0].finished = requests[0][1].finished = true;
    requests[0][1].result = -5;
    assert_int_equal(job_oldest_read(&board).file, 1);
}

static void how_far_it_is_overtaken(void **state) {
    (void)state;
    assert_int_equal(job_oldest_read(&board).overtaken_ns, 0);
    board.latest_ns = 9; // a job that was claimed earlier
    assert_int_equal(job_oldest_read(&board).overtaken_ns, 0);
    board.latest_ns = 30;
    assert_int_equal(job_oldest_read(&board).overtaken_ns, 20);
}

// ---- In the supervisor -------------------------------------------------------------------------------------

#define FILES 4u

static struct stats_loader record;
static struct loader_process loader = {.record = &record, .process = {.started_ns = 100}};

static void say(uint32_t file, uint64_t since, uint64_t beat) {
    atomic_store(&record.read_file, file);
    atomic_store(&record.read_since_ns, since);
    atomic_store(&record.heartbeat_ns, beat);
}

static void a_record_is_read(void **state) {
    struct loader_read read;
    (void)state;
    say(0, 120, 130);
    assert_false(loader_process_read(&loader, FILES, 200, &read));
    say(4, 120, 130);
    assert_true(loader_process_read(&loader, FILES, 200, &read));
    assert_int_equal(read.file, 3);
    assert_int_equal(read.age_ns, 80);
    say(1, 0, 130); // it has waited in its own thread since then
    assert_true(loader_process_read(&loader, FILES, 200, &read));
    assert_int_equal(read.file, 0);
    assert_int_equal(read.age_ns, 70);
}

static void a_record_that_lies(void **state) {
    struct loader_read read;
    (void)state;
    say(FILES + 1, 120, 130);
    assert_false(loader_process_read(&loader, FILES, 200, &read));
    say(UINT32_MAX, 120, 130);
    assert_false(loader_process_read(&loader, FILES, 200, &read));
    assert_false(loader_process_read(&loader, 0, 200, &read));
    say(1, 1, 130);
    assert_true(loader_process_read(&loader, FILES, 200, &read));
    assert_int_equal(read.age_ns, 100); // not older than the process
    say(1, UINT64_MAX, 130);
    assert_true(loader_process_read(&loader, FILES, 200, &read));
    assert_int_equal(read.age_ns, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_read, set_up),
        cmocka_unit_test_setup(the_job_that_has_not_moved_for_longest, set_up),
        cmocka_unit_test_setup(a_read_that_was_split, set_up),
        cmocka_unit_test_setup(how_far_it_is_overtaken, set_up),
        cmocka_unit_test(a_record_is_read),
        cmocka_unit_test(a_record_that_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
