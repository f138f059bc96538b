// How long a transfer process may be silent, at what it is and whatever the machine does; and what is hung is ended.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/time.h"
#include "daemon/log.h"
#include "daemon/supervisor/feeds/device_watch.h"
#include "daemon/supervisor/processes/transfer_process.h"
#include "daemon/supervisor/standstill.h"

#define TICK_NS   (250 * NS_PER_MS)
#define TIMEOUT_S 2
#define STOP_S    1
#define DRIVER_S  120 // device_watch.c

static struct supervisor supervisor;
static struct config config = {.loader_timeout_s = TIMEOUT_S, .stop_timeout_s = STOP_S};
static struct device device;
static struct transfer_process transfer;
static struct stats_region *stats;
static struct stats_gpu *record;
static uint64_t now;
static int told;

static void failed(struct tenant *tenant, int code, const char *text) {
    (void)tenant;
    assert_int_equal(code, -EIO);
    assert_non_null(strstr(text, "does not end"));
    told++;
}

static const struct tenant_events events = {.failed = failed};
static struct tenant tenant = {.events = &events};

static int set_up(void **state) {
    (void)state;
    stats = mmap(NULL, sizeof *stats, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stats == MAP_FAILED)
        return -1;
    record = &stats->gpus[0];
    now = monotonic_ns();
    supervisor = (struct supervisor){0};
    supervisor_init(&supervisor, &config);
    supervisor.stats = stats;
    device = (struct device){
        .supervisor = &supervisor, .state = DEVICE_READY, .transfer = &transfer, .uuid = "HOST-0"};
    LIST_INIT(&device.tenants);
    LIST_INSERT_HEAD(&supervisor.devices, &device, link);
    tenant.closing_since_ns = 0;
    LIST_INSERT_HEAD(&device.tenants, &tenant, link);
    transfer =
        (struct transfer_process){.process = {.started_ns = now, .state = PROCESS_RUNNING}, .record = record};
    transfer.process.pid = fork();
    if (!transfer.process.pid)
        for (;;)
            pause();
    told = 0;
    return transfer.process.pid < 0 ? -1 : 0;
}

static int tear_down(void **state) {
    (void)state;
    kill(transfer.process.pid, SIGKILL);
    waitpid(transfer.process.pid, NULL, 0);
    return munmap(stats, sizeof *stats);
}

static void beat(void) {
    atomic_store(&record->heartbeat_ns, now);
}

static bool is_killed(void) {
    return transfer.process.state == PROCESS_KILLED;
}

// Ticks until that much time has passed, or the process has been killed. Returns how many seconds that took.
static uint64_t pass(uint64_t seconds, bool beats) {
    uint64_t passed = 0;
    for (; passed < seconds * NS_PER_S && !is_killed(); passed += TICK_NS) {
        now += TICK_NS;
        if (beats)
            beat();
        standstill_tick(&supervisor, now);
        device_watch(&device, now);
    }
    return passed / NS_PER_S;
}

static void stand_still(uint64_t seconds) {
    now += seconds * NS_PER_S;
    standstill_tick(&supervisor, now);
    device_watch(&device, now);
}

// ---- Silence -----------------------------------------------------------------------------------------------

static void a_silent_one_is_ended(void **state) {
    (void)state;
    pass(60, true);
    assert_false(is_killed());
    assert_int_equal(pass(10, false), TIMEOUT_S);
    assert_true(is_killed());
}

static void a_driver_may_take_its_time(void **state) {
    (void)state;
    pass(1, true);
    atomic_store(&record->in_driver, 1);
    pass(DRIVER_S - 1, false);
    assert_false(is_killed());
    beat();
    atomic_store(&record->in_driver, 0);
    assert_int_equal(pass(10, false), TIMEOUT_S);
    assert_true(is_killed());
}

static void a_driver_that_hangs_is_not_waited_for_without_end(void **state) {
    (void)state;
    pass(1, true);
    atomic_store(&record->in_driver, 1);
    assert_in_range(pass(1000, false), DRIVER_S, DRIVER_S + 1);
    assert_true(is_killed());
}

static void a_longer_timeout_holds_in_the_driver_too(void **state) {
    (void)state;
    config.loader_timeout_s = 3600;
    atomic_store(&record->in_driver, 1);
    pass(3600, false);
    config.loader_timeout_s = TIMEOUT_S;
    assert_false(is_killed());
}

static void one_that_starts_may_take_its_time(void **state) {
    (void)state;
    device.state = DEVICE_STARTING;
    assert_in_range(pass(1000, false), DRIVER_S, DRIVER_S + 1);
}

// ---- Pools that are not closed -----------------------------------------------------------------------------

static void a_pool_that_is_not_closed(void **state) {
    (void)state;
    pass(1, true);
    tenant.closing_since_ns = now;
    assert_int_equal(pass(1000, true), 2 * TIMEOUT_S);
    assert_true(is_killed());
}

static void a_pool_that_is_closed_slowly(void **state) {
    (void)state;
    pass(1, true);
    tenant.closing_since_ns = now;
    atomic_store(&record->in_driver, 1);
    pass(DRIVER_S, true);
    assert_false(is_killed());
    assert_in_range(pass(1000, true), 0, 2 * TIMEOUT_S); // it may just claim that
    assert_true(is_killed());
}

// ---- One that does not end ---------------------------------------------------------------------------------

static void tenants_are_told_that_the_driver_hangs(void **state) {
    (void)state;
    process_kill(&transfer.process);
    const uint64_t killed_ns = transfer.process.signalled_ns;
    for (now = killed_ns; now < killed_ns + DRIVER_S * NS_PER_S; now += TICK_NS) {
        device_watch(&device, now);
        assert_int_equal(told, 0);
        assert_int_equal(device.warned, now >= killed_ns + STOP_S * NS_PER_S);
    }
    device_watch(&device, now);
    device_watch(&device, now + NS_PER_S);
    assert_int_equal(told, 1);
}

// ---- A machine that stands still ---------------------------------------------------------------------------

static void a_standstill_is_not_silence(void **state) {
    (void)state;
    pass(1, true);
    tenant.closing_since_ns = now;
    stand_still(1000);
    pass(1, false); // it had this left, and more
    assert_false(is_killed());
    pass(2, true);
    assert_false(is_killed());
    assert_int_equal(pass(10, true), 1); // the rest of what it had for the pool
    assert_true(is_killed());
}

static void silence_goes_on_after_standstills(void **state) {
    (void)state;
    pass(1, true);
    assert_in_range(pass(1, false), 1, 1);
    stand_still(5);
    assert_in_range(pass(10, false), 0, 1);
    assert_true(is_killed());
}

static void ticks_that_are_always_late(void **state) {
    (void)state;
    pass(1, true);
    for (int i = 0; i < 100 && !is_killed(); i++)
        stand_still(5);
    assert_true(is_killed());
}

static void every_heartbeat_counts(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        pass(1, true);
        stand_still(100);
        pass(1, false);
        assert_false(is_killed());
    }
    assert_int_equal(pass(10, false), TIMEOUT_S - 1);
    assert_true(is_killed());
}

// The engine began with a job before the standstill, which is the process's heartbeat until the job is done.
static void a_heartbeat_from_before_is_excused(void **state) {
    (void)state;
    pass(1, true);
    const uint64_t began = now;
    pass(1, true);
    stand_still(100);
    atomic_store(&record->heartbeat_ns, began);
    device_watch(&device, now);
    assert_false(is_killed());
    assert_in_range(pass(10, false), 1, TIMEOUT_S);
}

static void one_that_was_killed_just_before_need_not_have_ended(void **state) {
    (void)state;
    pass(1, true);
    process_kill(&transfer.process);
    now = transfer.process.signalled_ns + TICK_NS;
    standstill_tick(&supervisor, now);
    stand_still(1000);
    assert_false(device.warned);
    assert_int_equal(told, 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_silent_one_is_ended),
        CASE(a_driver_may_take_its_time),
        CASE(a_driver_that_hangs_is_not_waited_for_without_end),
        CASE(a_longer_timeout_holds_in_the_driver_too),
        CASE(one_that_starts_may_take_its_time),
        CASE(a_pool_that_is_not_closed),
        CASE(a_pool_that_is_closed_slowly),
        CASE(tenants_are_told_that_the_driver_hangs),
        CASE(a_standstill_is_not_silence),
        CASE(silence_goes_on_after_standstills),
        CASE(ticks_that_are_always_late),
        CASE(every_heartbeat_counts),
        CASE(a_heartbeat_from_before_is_excused),
        CASE(one_that_was_killed_just_before_need_not_have_ended),
    };
    log_open("test", LOG_LEVEL_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
