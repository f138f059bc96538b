// What the daemon answers about the GPUs in use: its records, whatever a transfer process has left in them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "base/sizes.h"
#include "daemon/supervisor/clients/query_status.h"

static struct stats_region *region;

static int make_region(void **state) {
    (void)state;
    region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return region == MAP_FAILED ? -1 : 0;
}

static int end_region(void **state) {
    (void)state;
    return munmap(region, sizeof *region);
}

static void only_gpus_in_use_are_listed(void **state) {
    (void)state;
    struct query_gpus gpus;
    query_list_gpus(region, 100, &gpus);
    assert_int_equal(gpus.count, 0);
    for (uint32_t i = 2; i < STATS_MAX_GPUS; i += 3) {
        region->gpus[i].used = 1;
        snprintf(region->gpus[i].uuid, STATS_NAME, "GPU-%u", i);
    }
    query_list_gpus(region, 100, &gpus);
    assert_int_equal(gpus.count, 5);
    assert_string_equal(gpus.list[0]->uuid, "GPU-2");
    assert_string_equal(gpus.list[4]->uuid, "GPU-14");
    for (uint32_t i = 0; i < STATS_MAX_GPUS; i++)
        region->gpus[i].used = 1;
    query_list_gpus(region, 100, &gpus);
    assert_int_equal(gpus.count, STATS_MAX_GPUS);
}

static void each_word_comes_from_its_place(void **state) {
    (void)state;
    struct stats_gpu *record = &region->gpus[7];
    record->used = 1;
    strcpy(record->uuid, "GPU-7");
    strcpy(record->name, "NVIDIA H200");
    atomic_store(&record->pid, 11);
    atomic_store(&record->state, GPU_BACKING_OFF);
    atomic_store(&record->pools, 12);
    atomic_store(&record->pool_bytes, 13);
    atomic_store(&record->pinned_bytes, 14);
    atomic_store(&record->bus_bytes_per_s, 15);
    atomic_store(&record->counters[GPU_copied_bytes], 16);
    atomic_store(&record->heartbeat_ns, 83);
    struct query_gpus gpus;
    query_list_gpus(region, 100, &gpus);
    assert_int_equal(gpus.count, 1);
    const Feedd__Gpu *row = gpus.list[0];
    assert_string_equal(row->uuid, "GPU-7");
    assert_string_equal(row->name, "NVIDIA H200");
    assert_string_equal(row->state, "backing off");
    const uint64_t numbers[] = {
        row->pid,          row->pools,           row->pool_bytes, row->pinned_bytes, row->bus_bytes_per_s,
        row->copied_bytes, row->heartbeat_age_ns};
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        assert_int_equal(numbers[i], 11 + i);
    query_list_gpus(region, 50, &gpus); // it beat while we looked
    assert_int_equal(gpus.list[0]->heartbeat_age_ns, 0);
}

static void a_record_full_of_rubbish_is_answered(void **state) {
    (void)state;
    memset(&region->gpus[STATS_MAX_GPUS - 1], 0xff, sizeof region->gpus[0]);
    struct query_gpus gpus;
    query_list_gpus(region, 100, &gpus);
    assert_int_equal(gpus.count, 1);
    assert_int_equal(strnlen(gpus.list[0]->uuid, STATS_NAME), STATS_NAME - 1);
    assert_int_equal(strnlen(gpus.list[0]->name, STATS_NAME), STATS_NAME - 1);
    assert_string_equal(gpus.list[0]->state, "?");
    // What has been measured for packing does not change any more.
    memset(region->gpus[STATS_MAX_GPUS - 1].uuid, 0, STATS_NAME);
    assert_int_equal(strnlen(gpus.list[0]->uuid, STATS_NAME), STATS_NAME - 1);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_region, end_region)
    const struct CMUnitTest tests[] = {
        CASE(only_gpus_in_use_are_listed),
        CASE(each_word_comes_from_its_place),
        CASE(a_record_full_of_rubbish_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
