// What feedctl stats says of GPUs: the second table and the JSON.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/report.h"
#include "shm/stats_read.h"

#define S UINT64_C(1000000000)

// Too much for the stack.
static struct stats_snapshot earlier, now;

static struct stats_gpu_snapshot a_gpu(const char *uuid, uint64_t copies) {
    struct stats_gpu_snapshot gpu = {.name = "NVIDIA H200",
                                     .started_ns = 90 * S,
                                     .pid = 77,
                                     .heartbeat_ns = 109 * S + S / 2,
                                     .state = GPU_RUNNING,
                                     .pools = 3,
                                     .pinned_bytes = 3 << 20,
                                     .pool_bytes = 5 << 20,

                                     .bus_bytes_per_s = 50 * S};
    snprintf(gpu.uuid, sizeof gpu.uuid, "%s", uuid);
    gpu.counters[GPU_copies] = copies;
    gpu.counters[GPU_copied_bytes] = copies * 100000000;
    gpu.counters[GPU_copying_ns] = copies * 2000000;
    gpu.counters[GPU_release_wait_ns] = copies * 1000000;
    return gpu;
}

// One GPU and a feed, looked at twice in two seconds.
static int make_snapshots(void **state) {
    (void)state;
    memset(&earlier, 0, sizeof earlier);
    earlier.pid = 5;
    earlier.started_ns = 80 * S;
    earlier.feed_count = 1;
    earlier.feeds[0] =
        (struct stats_feed_snapshot){.id = 4, .name = "job", .slot_count = 8, .started_ns = 90 * S};
    earlier.gpu_count = 1;
    now = earlier;
    earlier.taken_ns = 108 * S;
    now.taken_ns = 110 * S;
    earlier.gpus[0] = a_gpu("GPU-5a3c1b2f-1111-2222-3333-444455556666", 100);
    now.gpus[0] = a_gpu("GPU-5a3c1b2f-1111-2222-3333-444455556666", 300);
    return 0;
}

static void prints(const struct report_options *options, const struct stats_snapshot *before,
                   const char *wanted) {
    char *text AUTO_FREE = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    bool wrote = report_gpus(options, before, &now, out);
    fclose(out);
    assert_string_equal(text, wanted);
    assert_int_equal(wrote, *wanted != 0);
}

// ---- Text --------------------------------------------------------------------------------------------------

static void a_gpu_has_a_line(void **state) {
    (void)state;
    struct report_options options = {.gpu_title = true};
    prints(&options, &earlier,
           "\nGPU           NAME          OVER   MB/S  COPIES/S  BUSY  WAIT   BUS  PINNED  POOLS  REPLACED  "
           "STATE\n"
           "GPU-5a3c1b2f  NVIDIA H200  2.0 s  10000       100  20 %  10 %  20 %   3 MiB      3         0  "
           "running\n");
    prints(&options, NULL,
           "\nGPU           NAME          OVER  MB/S  COPIES/S  BUSY  WAIT  BUS  PINNED  POOLS  REPLACED  "
           "STATE\n"
           "GPU-5a3c1b2f  NVIDIA H200  start  1500        15   3 %   2 %  3 %   3 MiB      3         0  "
           "running\n");
    options.gpu_title = false;
    now.gpus[0].bus_bytes_per_s = 0;
    now.gpus[0].state = GPU_BACKING_OFF;
    now.gpus[0].counters[GPU_processes_replaced] = 2;
    prints(&options, &earlier,
           "GPU-5a3c1b2f  NVIDIA H200  2.0 s  10000       100  20 %  10 %    -   3 MiB      3         2  "
           "backing off\n");
}

static void a_simulated_gpu_has_no_bus(void **state) {
    (void)state;
    struct report_options options = {.gpu_title = true, .width = 35};
    now.gpus[0] = a_gpu("HOST-0", 300);
    prints(&options, &earlier, "\nGPU     MB/S  BUSY  WAIT  BUS\nHOST-0  1500   3 %   2 %    -\n");
}

static void one_session_is_no_plural(void **state) {
    (void)state;
    for (now.sessions = 0; now.sessions < 3; now.sessions++) {
        char *text AUTO_FREE = NULL;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        assert_non_null(out);
        report_daemon(&now, DAEMON_ALIVE, out);
        fclose(out);
        static const char *const wanted[] = {", 0 sessions,", ", 1 session,", ", 2 sessions,"};
        assert_non_null(strstr(text, wanted[now.sessions]));
    }
}

static void the_first_line_fits_a_terminal_of_80_columns(void **state) {
    (void)state;
    static const enum daemon_state states[] = {DAEMON_ALIVE, DAEMON_STOPPED, DAEMON_GONE, DAEMON_WEDGED};
    now.pid = 4194304;
    now.started_ns = 1;
    now.taken_ns = now.heartbeat_ns = UINT64_C(364) * 86400 * NS_PER_S;
    now.sessions = 1000;
    now.ring_bytes = now.ring_memory = UINT64_C(1023) << 30;
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        char *text AUTO_FREE = NULL;
        size_t bytes;
        if (states[i] != DAEMON_ALIVE)
            now.heartbeat_ns = 1;
        FILE *out = open_memstream(&text, &bytes);
        assert_non_null(out);
        report_daemon(&now, states[i], out);
        fclose(out);
        assert_in_range(bytes, 20, 81);
    }
}

static void a_narrow_terminal_keeps_what_matters_most(void **state) {
    (void)state;
    struct report_options options = {.gpu_title = true, .width = 40};
    prints(&options, &earlier,
           "\nGPU            MB/S  BUSY  WAIT   BUS\n"
           "GPU-5a3c1b2f  10000  20 %  10 %  20 %\n");
}

static void uuids_that_begin_alike_are_whole(void **state) {
    (void)state;
    struct report_options options = {.width = 60};
    now.gpus[1] = a_gpu("GPU-5a3c1b2f-1111-2222-3333-444455556667", 0);
    now.gpus[2] = a_gpu("MIG-5a3c1b2f-1111-2222-3333-444455556666", 0);
    now.gpus[3] = a_gpu("strange", 0);
    now.gpu_count = 4;
    prints(&options, &earlier,
           "GPU-5a3c1b2f-1111-2222-3333-444455556666  10000  20 %  10 %\n"
           "GPU-5a3c1b2f-1111-2222-3333-444455556667    0.0   0 %   0 %\n"
           "MIG-5a3c1b2f                                0.0   0 %   0 %\n"
           "strange                                     0.0   0 %   0 %\n");
}

static void without_gpus_there_is_no_table(void **state) {
    (void)state;
    struct report_options options = {.gpu_title = true, .feed = "job"};
    prints(&options, &earlier, ""); // one feed alone
    options.feed = NULL;
    now.gpu_count = 0;
    prints(&options, &earlier, "");
}

// Counters that have started again in between cover only the time since then.
static void what_is_another_is_not_compared(void **state) {
    (void)state;
    static const char since_start[] = "GPU-5a3c1b2f  NVIDIA H200  start  1500        15   3 %   2 %  3 %   3 "
                                      "MiB      3         0  running\n";
    struct report_options options = {0};
    earlier.gpus[0].started_ns--; // given up and taken again
    prints(&options, &earlier, since_start);
    earlier.gpus[0].started_ns++;
    earlier.gpus[0].uuid[4] = 'x';
    prints(&options, &earlier, since_start);
    earlier.gpus[0].uuid[4] = '5';
    earlier.started_ns--; // another daemon
    prints(&options, &earlier, since_start);
}

// ---- JSON --------------------------------------------------------------------------------------------------

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("there is no number %s", key);
    return json_number_value(value);
}

static void has_number(const json_t *object, const char *key, double wanted) {
    double value = number(object, key);
    if (value < wanted - 1e-6 || value > wanted + 1e-6)
        fail_msg("%s is %g instead of %g", key, value, wanted);
}

static void has_text(const json_t *object, const char *key, const char *wanted) {
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    assert_string_equal(text, wanted);
}

static void json_has_all_of_a_gpu(void **state) {
    (void)state;
    struct report_options options = {0};
    json_t *report = report_json(&options, &earlier, &now, DAEMON_ALIVE);
    assert_int_equal(json_array_size(json_object_get(report, "gpus")), 1);
    const json_t *gpu = json_array_get(json_object_get(report, "gpus"), 0);
    has_text(gpu, "uuid", "GPU-5a3c1b2f-1111-2222-3333-444455556666");
    has_text(gpu, "name", "NVIDIA H200");
    has_text(gpu, "state", "running");
    has_number(gpu, "pid", 77);
    has_number(gpu, "age_s", 20);
    has_number(gpu, "heartbeat_age_s", 0.5);
    has_number(gpu, "pools", 3);
    has_number(gpu, "pinned_bytes", 3 << 20);
    has_number(gpu, "pool_bytes", 5 << 20);
    has_number(gpu, "bus_bytes_per_s", 50e9);
    const json_t *interval = json_object_get(gpu, "interval");
    has_number(interval, "seconds", 2);
    has_number(interval, "copies_per_s", 100);
    has_number(interval, "bytes_per_s", 1e10);
    has_number(interval, "busy", 0.2);
    has_number(interval, "release_wait", 0.1);
    has_number(interval, "bus", 0.2);
    has_number(interval, "processes_replaced", 0);
    has_number(json_object_get(gpu, "since_start"), "seconds", 20);
    has_number(json_object_get(gpu, "since_start"), "copies_per_s", 15);
    const json_t *counters = json_object_get(gpu, "gpu_counters");
    assert_int_equal(json_object_size(counters), GPU_COUNTERS);
    has_number(counters, "copies", 300);
    has_number(counters, "release_wait_ns", 300000000);
    json_decref(report);
}

static void json_lists_gpus_beside_any_feed(void **state) {
    (void)state;
    struct report_options options = {.feed = "job"};
    json_t *report = report_json(&options, NULL, &now, DAEMON_ALIVE);
    assert_int_equal(json_array_size(json_object_get(report, "gpus")), 1);
    const json_t *gpu = json_array_get(json_object_get(report, "gpus"), 0);
    assert_true(json_equal(json_object_get(gpu, "interval"), json_object_get(gpu, "since_start")));
    json_decref(report);
    now.gpu_count = 0;
    report = report_json(&options, NULL, &now, DAEMON_ALIVE);
    assert_true(json_is_array(json_object_get(report, "gpus")));
    assert_int_equal(json_array_size(json_object_get(report, "gpus")), 0);
    json_decref(report);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup(test, make_snapshots)
    const struct CMUnitTest tests[] = {
        CASE(a_gpu_has_a_line),
        CASE(a_simulated_gpu_has_no_bus),
        CASE(one_session_is_no_plural),
        CASE(the_first_line_fits_a_terminal_of_80_columns),
        CASE(a_narrow_terminal_keeps_what_matters_most),
        CASE(uuids_that_begin_alike_are_whole),
        CASE(without_gpus_there_is_no_table),
        CASE(what_is_another_is_not_compared),
        CASE(json_has_all_of_a_gpu),
        CASE(json_lists_gpus_beside_any_feed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
