// The records of GPUs in the statistics region: who maps them, and what a snapshot takes from them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/sizes.h"
#include "shm/stats.h"
#include "shm/stats_read.h"

static int fd = -1;
static struct stats_region *region;

static int make_region(void **state) {
    (void)state;
    fd = memfd_create("stats", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof *region) < 0)
        return -1;
    region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (region == MAP_FAILED)
        return -1;
    region->header.started_ns = 1000;
    return 0;
}

static int end_region(void **state) {
    (void)state;
    close_fd(&fd);
    return munmap(region, sizeof *region);
}

static const struct stats_snapshot *take_snapshot(void) {
    static struct stats_snapshot snapshot;
    stats_snapshot(region, &snapshot);
    return &snapshot;
}

static void name_gpu(struct stats_gpu *gpu, uint64_t used, const char *uuid) {
    stats_gpu_write_begin(gpu);
    gpu->used = used;
    snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
    snprintf(gpu->name, sizeof gpu->name, "name of %s", uuid);
    stats_gpu_write_end(gpu);
}

static void a_snapshot_has_the_gpus_in_use(void **state) {
    (void)state;
    struct stats_gpu *last = &region->gpus[STATS_MAX_GPUS - 1];
    assert_int_equal(take_snapshot()->gpu_count, 0);
    name_gpu(&region->gpus[1], 1, "GPU-1");
    name_gpu(last, 1005, "GPU-2");
    stats_add(&region->gpus[0].counters[GPU_copies], 1000000); // belongs to nobody
    for (int counter = 0; counter < GPU_COUNTERS; counter++)
        stats_add(&last->counters[counter], 100 + (uint64_t)counter);
    atomic_store(&last->pid, 11);
    atomic_store(&last->heartbeat_ns, 12);
    atomic_store(&last->pools, 13);
    atomic_store(&last->pinned_bytes, 14);
    atomic_store(&last->pool_bytes, 15);
    atomic_store(&last->bus_bytes_per_s, 16);
    atomic_store(&last->state, GPU_BACKING_OFF);
    const struct stats_snapshot *snapshot = take_snapshot();
    assert_int_equal(snapshot->gpu_count, 2);
    assert_string_equal(snapshot->gpus[0].uuid, "GPU-1");
    assert_int_equal(snapshot->gpus[0].counters[GPU_copies], 0);
    assert_int_equal(snapshot->gpus[0].started_ns, 1000); // with the daemon, at the earliest
    const struct stats_gpu_snapshot *gpu = &snapshot->gpus[1];
    assert_string_equal(gpu->uuid, "GPU-2");
    assert_string_equal(gpu->name, "name of GPU-2");
    assert_int_equal(gpu->started_ns, 1005);
    assert_int_equal(gpu->state, GPU_BACKING_OFF);
    const uint64_t words[] = {gpu->pid,          gpu->heartbeat_ns, gpu->pools,
                              gpu->pinned_bytes, gpu->pool_bytes,   gpu->bus_bytes_per_s};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        assert_int_equal(words[i], 11 + i);
    for (int counter = 0; counter < GPU_COUNTERS; counter++)
        assert_int_equal(gpu->counters[counter], 100 + counter);
    name_gpu(&region->gpus[1], 0, "");
    assert_int_equal(take_snapshot()->gpu_count, 1);
    for (uint32_t i = 0; i < STATS_MAX_GPUS; i++)
        name_gpu(&region->gpus[i], 1, "GPU");
    assert_int_equal(take_snapshot()->gpu_count, STATS_MAX_GPUS);
}

// A transfer process that has run wild can write anything to its page.
static void texts_end(void **state) {
    (void)state;
    region->gpus[0].used = 1;
    memset(region->gpus[0].uuid, 'u', STATS_NAME);
    memset(region->gpus[0].name, 'n', STATS_NAME);
    const struct stats_gpu_snapshot *gpu = &take_snapshot()->gpus[0];
    assert_int_equal(strnlen(gpu->uuid, STATS_NAME), STATS_NAME - 1);
    assert_int_equal(strnlen(gpu->name, STATS_NAME), STATS_NAME - 1);
}

static void a_transfer_process_maps_its_record_and_no_other(void **state) {
    (void)state;
    struct stats_gpu *record = NULL;
    struct error error = {0};
    assert_int_equal(stats_map_gpu(fd, STATS_MAX_GPUS - 1, &record, &error), 0);
    stats_add(&record->counters[GPU_copied_bytes], 3);
    assert_int_equal(atomic_load(&region->gpus[STATS_MAX_GPUS - 1].counters[GPU_copied_bytes]), 3);
    munmap(record, sizeof *record);
    record = NULL;
    assert_int_equal(stats_map_gpu(fd, STATS_MAX_GPUS, &record, &error), -EINVAL);
    assert_int_equal(stats_map_gpu(-1, 0, &record, &error), -EBADF);
    assert_null(record);
}

static void every_state_has_its_word(void **state) {
    (void)state;
    assert_string_equal(stats_gpu_state_name(GPU_STARTING), "starting");
    assert_string_equal(stats_gpu_state_name(GPU_RUNNING), "running");
    assert_string_equal(stats_gpu_state_name(GPU_BACKING_OFF), "backing off");
    assert_string_equal(stats_gpu_state_name(GPU_STOPPING), "stopping");
    assert_string_equal(stats_gpu_state_name(GPU_STATES), "?");
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_region, end_region)
    const struct CMUnitTest tests[] = {
        CASE(a_snapshot_has_the_gpus_in_use),
        CASE(texts_end),
        CASE(a_transfer_process_maps_its_record_and_no_other),
        cmocka_unit_test(every_state_has_its_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
