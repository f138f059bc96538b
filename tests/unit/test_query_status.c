// What the daemon answers about the GPUs in use and the confinement of processes: its records, whatever loaders and
// transfer processes have left in them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "base/sizes.h"
#include "daemon/supervisor/clients/query_confinement.h"
#include "daemon/supervisor/clients/query_status.h"

static struct stats_region *region;
static struct supervisor supervisor; // of which confinement looks at `stats` and `confined`

static int make_region(void **state) {
    (void)state;
    region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(&supervisor, 0, sizeof supervisor);
    supervisor.stats = region;
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

// ---- Confinement -------------------------------------------------------------------------------------------

#define BIT(part) (1u << (part))

static void claim(uint32_t loader, uint32_t wanted, uint32_t achieved) {
    atomic_store(&region->owners.feed[loader], 1);
    atomic_store(&region->loaders[loader].confined, confinement_word(wanted, achieved));
}

static void roles_without_a_confined_process_are_left_out(void **state) {
    (void)state;
    struct query_confinement confinement;
    query_list_confinement(&supervisor, &confinement);
    assert_int_equal(confinement.count, 0);
    supervisor.confined = confinement_word(BIT(CONFINED_CALLS), BIT(CONFINED_CALLS));
    claim(3, 0, 0);                                    // has not got so far
    atomic_store(&region->loaders[4].confined, ~0ull); // nobody's record
    atomic_store(&region->gpus[1].confined, ~0ull);
    query_list_confinement(&supervisor, &confinement);
    assert_int_equal(confinement.count, 1);
    assert_string_equal(confinement.list[0]->role, "supervisor");
    assert_int_equal(confinement.list[0]->n_missing, 0);
    assert_string_equal(confinement.list[0]->active[0], "system_calls");
}

static void what_one_lacks_its_role_lacks(void **state) {
    (void)state;
    struct query_confinement confinement;
    claim(0, BIT(CONFINED_PATHS) | BIT(CONFINED_CALLS), BIT(CONFINED_PATHS) | BIT(CONFINED_CALLS));
    claim(511, BIT(CONFINED_PATHS) | BIT(CONFINED_CALLS), BIT(CONFINED_PATHS));
    query_list_confinement(&supervisor, &confinement);
    assert_int_equal(confinement.count, 1);
    const Feedd__Confinement *row = confinement.list[0];
    assert_string_equal(row->role, "loader");
    assert_int_equal(row->processes, 2);
    assert_int_equal(row->n_active, 1);
    assert_string_equal(row->active[0], "no_paths");
    assert_int_equal(row->n_missing, 1);
    assert_string_equal(row->missing[0], "system_calls");
}

static void claims_may_be_rubbish(void **state) {
    (void)state;
    struct query_confinement confinement;
    memset(&region->gpus[0], 0xff, sizeof region->gpus[0]);
    claim(0, UINT32_MAX, 0);
    claim(1, 0, UINT32_MAX);
    query_list_confinement(&supervisor, &confinement);
    assert_int_equal(confinement.count, 2);
    assert_int_equal(confinement.list[0]->n_missing, CONFINEMENT_PARTS);
    assert_int_equal(confinement.list[1]->n_active, CONFINEMENT_PARTS);
    assert_string_equal(confinement_name(CONFINEMENT_PARTS), "?");
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_region, end_region)
    const struct CMUnitTest tests[] = {
        CASE(only_gpus_in_use_are_listed),          CASE(each_word_comes_from_its_place),
        CASE(a_record_full_of_rubbish_is_answered), CASE(roles_without_a_confined_process_are_left_out),
        CASE(what_one_lacks_its_role_lacks),        CASE(claims_may_be_rubbish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
