// Caches of decoded images: plans, records in memory and in a file, what is left of a process that was killed, and
// words and records that lie.
#include "tests/unit/sample_cache_fixture.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/time.h"

static void plans_have_bounds(void **state) {
    (void)state;
    assert_false(sample_cache_plan(&plan, 0, 1 << 20, false));
    assert_false(sample_cache_plan(&plan, 1, 8192, false));
    assert_true(sample_cache_plan(&plan, 1, sample_cache_least_bytes(1), false));
    assert_false(sample_cache_plan(&plan, 1, SAMPLE_CACHE_MOST_BYTES + 4096, false));
    assert_false(sample_cache_plan(&plan, UINT64_MAX / 8, SAMPLE_CACHE_MOST_BYTES, false));
    assert_int_equal(plan.memory_bytes, 0);
    assert_true(sample_cache_plan(&plan, ENTRIES, BYTES + 100, true));
    assert_int_equal(plan.file_bytes, BYTES / 4096 * 4096);
    assert_int_equal(plan.memory_bytes, plan.data_offset);
}

static void files_of_another_form_are_refused(void **state) {
    (void)state;
    struct sample_cache cache;
    struct error error = {0};
    make(true);
    assert_int_equal(sample_cache_open(&cache, ENTRIES, memory, -1, &error), -EPROTO);
    assert_int_equal(sample_cache_open(&cache, 4096, memory, file, &error), -EPROTO);
    assert_int_equal(sample_cache_open(&cache, ENTRIES, file, memory, &error), -EPROTO);
    assert_int_equal(sample_cache_open(&cache, ENTRIES, STDIN_FILENO, -1, &error), -EPROTO);
    assert_true(ftruncate(memory, 0) < 0 && errno == EPERM);
}

static void what_is_stored_is_found(void **state) {
    for (int in_file = 0; in_file < 2; in_file++) {
        (void)state;
        make(in_file);
        struct sample_cache cache = opened(), other = opened();
        assert_false(has(&cache, 3));
        for (uint32_t entry = 0; entry < 4; entry++)
            store(&cache, entry);
        for (uint32_t entry = 0; entry < 4; entry++)
            assert_true(has(&other, entry));
        store(&other, 2); // somebody has it already
        assert_int_equal(cache.counts.stored, 4);
        assert_int_equal(other.counts.stored, 0);
        assert_int_equal(sample_cache_used(&plan, cache.head), plan.data_offset + cache.counts.stored_bytes);
        sample_cache_close(&cache);
        sample_cache_close(&other);
    }
}

static void a_full_cache_keeps_what_it_has(void **state) {
    (void)state;
    make(false);
    struct sample_cache cache = opened();
    for (uint32_t entry = 0; entry < ENTRIES; entry++)
        store(&cache, entry);
    assert_true(cache.full);
    assert_true(cache.counts.stored >= 7 && cache.counts.stored < ENTRIES);
    for (uint32_t entry = 0; entry < ENTRIES; entry++)
        assert_int_equal(has(&cache, entry), entry < cache.counts.stored);
    assert_true(sample_cache_used(&plan, cache.head) <= plan.memory_bytes);
    sample_cache_close(&cache);
}

static void a_file_outlives_the_memory(void **state) {
    (void)state;
    struct error error = {0};
    make(true);
    struct sample_cache cache = opened();
    store(&cache, 0);
    store(&cache, 9);
    const uint64_t used = sample_cache_used(&plan, cache.head);
    sample_cache_close(&cache);
    make_memory();
    assert_int_equal(sample_cache_head_fits(file, &plan, &key), 1);
    assert_int_equal(sample_cache_head_fits(file, &plan, &(struct sample_cache_key){3, 5}), 0);
    assert_int_equal(sample_cache_continue(&plan, memory, file, &error), 0);
    cache = opened();
    assert_int_equal(sample_cache_used(&plan, cache.head), used);
    assert_int_equal(atomic_load(&cache.words[9]), 0);
    assert_true(has(&cache, 0) && has(&cache, 9) && !has(&cache, 1));
    assert_int_not_equal(atomic_load(&cache.words[9]), 0); // it is not checked again
    store(&cache, 1);
    assert_true(has(&cache, 0) && has(&cache, 1) && has(&cache, 9));
    sample_cache_close(&cache);
}

// As after a crash of the machine, when some pages have reached the disk and others have not.
static void records_that_are_not_whole_are_not_used(void **state) {
    (void)state;
    struct error error = {0};
    make(true);
    struct sample_cache cache = opened();
    for (uint32_t entry = 0; entry < 4; entry++)
        store(&cache, entry);
    cache.data[64 + 100] ^= 1;                                    // a pixel of entry 0
    atomic_store(&cache.kept[1], atomic_load(&cache.kept[2]));    // a word of another entry
    atomic_store(&cache.kept[3], UINT64_C(0xffffffffffffffff));   // one that leads out of the data
    atomic_store(&cache.kept[5], UINT64_C(1) << 32 | 1ull << 48); // one that leads into a record
    sample_cache_close(&cache);
    make_memory();
    assert_int_equal(sample_cache_continue(&plan, memory, file, &error), 0);
    cache = opened();
    assert_false(has(&cache, 0) || has(&cache, 1) || has(&cache, 3) || has(&cache, 5));
    assert_true(has(&cache, 2));
    for (uint32_t entry = 0; entry < 4; entry++)
        store(&cache, entry);
    for (uint32_t entry = 0; entry < 4; entry++)
        assert_true(has(&cache, entry));
    sample_cache_close(&cache);
}

// A loader that has been taken over can write anything.
static void words_that_lie_lead_nowhere(void **state) {
    (void)state;
    make(false);
    struct sample_cache cache = opened();
    const uint64_t words[] = {UINT64_MAX, 1, UINT64_C(1) << 32, UINT32_MAX | UINT64_C(1) << 32 | 1ull << 48,
                              UINT64_C(0xffffffff00000000)};
    for (uint32_t i = 0; i < COUNT_OF(words); i++) {
        atomic_store(&cache.words[i], words[i]);
        assert_null(sample_cache_find(&cache, i, 3).pixels);
        assert_null(sample_cache_find(&cache, i, 1).pixels);
        store(&cache, i); // and do not keep it from being stored
        assert_true(has(&cache, i));
    }
    _Atomic uint64_t *used = (_Atomic uint64_t *)(void *)(cache.memory + 64);
    const uint64_t lies[] = {UINT64_MAX, UINT64_MAX / 256 * 256, cache.data_bytes, 1};
    for (uint32_t i = 0; i < COUNT_OF(lies); i++) {
        cache.full = false;
        atomic_store(used, lies[i]);
        store(&cache, 12);
        assert_true(cache.full && !has(&cache, 12));
        assert_true(sample_cache_used(&plan, cache.head) <= plan.memory_bytes);
    }
    sample_cache_close(&cache);
}

// Killed anywhere, they leave nothing that is wrong, and others store what is missing.
static void processes_are_killed(void **state) {
    (void)state;
    uint32_t complete = 0;
    for (uint32_t round = 0; round < 200; round++) {
        make(round % 2);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct sample_cache cache = opened();
            for (uint32_t entry = 0; entry < 7; entry++)
                store(&cache, entry);
            for (;;)
                pause();
        }
        const struct timespec moment = {.tv_nsec = (long)(round * 5000)};
        nanosleep(&moment, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        struct sample_cache cache = opened();
        uint32_t found = 0;
        for (uint32_t entry = 0; entry < 7; entry++)
            found += has(&cache, entry);
        complete += found == 7;
        for (uint32_t entry = 0; entry < 6; entry++) // one may have been lost with the room that it had taken
            store(&cache, entry);
        for (uint32_t entry = 0; entry < 6; entry++)
            assert_true(has(&cache, entry));
        sample_cache_close(&cache);
    }
    assert_true(complete < 200); // some were killed in the middle
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_have_bounds),
        cmocka_unit_test(files_of_another_form_are_refused),
        cmocka_unit_test(what_is_stored_is_found),
        cmocka_unit_test(a_full_cache_keeps_what_it_has),
        cmocka_unit_test(a_file_outlives_the_memory),
        cmocka_unit_test(records_that_are_not_whole_are_not_used),
        cmocka_unit_test(words_that_lie_lead_nowhere),
        cmocka_unit_test(processes_are_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
