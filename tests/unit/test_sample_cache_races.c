// Caches of decoded images, when several store the same: who comes too late uses its room for something else.
#include "tests/unit/sample_cache_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

// What another does while a record is being copied: reading the pixels faults once.
static struct {
    uint8_t *pixels;
    uint64_t bytes;
    void (*meanwhile)(void);
    struct sample_cache *other;
} raced;

static void on_fault(int number) {
    (void)number;
    assert_int_equal(mprotect(raced.pixels, raced.bytes, PROT_READ | PROT_WRITE), 0);
    raced.meanwhile();
}

static void store_raced(struct sample_cache *cache, uint32_t entry, void (*meanwhile)(void)) {
    const struct sigaction action = {.sa_handler = on_fault};
    struct sigaction before;
    raced.bytes = align_up((uint64_t)SIDE * SIDE * 3, 4096);
    raced.pixels = mmap(NULL, raced.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    raced.meanwhile = meanwhile;
    assert_true(raced.pixels != MAP_FAILED);
    fill(raced.pixels, entry);
    assert_int_equal(mprotect(raced.pixels, raced.bytes, PROT_NONE), 0);
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    sample_cache_store(cache, entry, raced.pixels, (uint64_t)SIDE * 3, SIDE, SIDE, 3);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    munmap(raced.pixels, raced.bytes);
}

static void other_stores_1(void) {
    store(raced.other, 1);
}

static void other_stores_3(void) {
    store(raced.other, 3);
}

static void other_stores_5(void) {
    store(raced.other, 5);
}

static uint64_t records_of(const struct sample_cache *cache) {
    const uint64_t record = align_up(64 + (uint64_t)SIDE * SIDE * 3, 256);
    const uint64_t used = sample_cache_used(&plan, cache->head) - plan.data_offset;
    assert_int_equal(used % record, 0);
    return used / record;
}

// The other's record lies behind its room.
static void the_second_keeps_its_room_for_its_next_record(void **state) {
    (void)state;
    for (int in_file = 0; in_file < 2; in_file++) {
        make(in_file);
        struct sample_cache cache = opened(), other = opened();
        raced.other = &other;
        store_raced(&cache, 1, other_stores_1);
        assert_int_equal(cache.counts.stored, 0);
        assert_int_equal(records_of(&cache), 2);
        store_raced(&cache, 3, other_stores_3); // once more, with the room that it has
        assert_int_equal(records_of(&cache), 3);
        store(&cache, 4);
        assert_int_equal(records_of(&cache), 3);
        store(&cache, 5);
        assert_int_equal(records_of(&cache), 4);
        assert_int_equal(cache.counts.stored, 2);
        for (uint32_t entry = 0; entry < ENTRIES; entry++)
            assert_int_equal(has(&other, entry), entry == 1 || (entry >= 3 && entry <= 5));
        sample_cache_close(&cache);
        sample_cache_close(&other);
    }
}

static void room_is_kept_in_parts(void **state) {
    (void)state;
    make(false);
    struct sample_cache cache = opened(), other = opened();
    uint8_t pixels[SIDE * SIDE * 3];
    raced.other = &other;
    store_raced(&cache, 1, other_stores_1);
    fill(pixels, 6);
    sample_cache_store(&cache, 6, pixels, (uint64_t)SIDE * 3, SIDE, SIDE / 2, 3);
    assert_int_equal(records_of(&cache), 2);
    store(&cache, 2); // what is left is not enough
    assert_int_equal(records_of(&cache), 3);
    sample_cache_store(&cache, 7, pixels, (uint64_t)SIDE * 3, SIDE, SIDE / 4, 3);
    assert_int_equal(records_of(&cache), 3);
    assert_true(has(&cache, 1) && has(&cache, 2));
    for (uint32_t entry = 6; entry <= 7; entry++) {
        const struct sample_cached part = sample_cache_find(&other, entry, 3);
        assert_true(part.pixels && part.width == SIDE && part.height == SIDE / (entry == 6 ? 2 : 4));
        assert_memory_equal(part.pixels, pixels, (size_t)part.width * part.height * 3);
    }
    sample_cache_close(&cache);
    sample_cache_close(&other);
}

static void the_second_gives_its_room_back(void **state) {
    (void)state;
    make(false);
    struct sample_cache cache = opened(), other = opened();
    raced.other = &cache;
    store_raced(&other, 1, other_stores_1);
    assert_int_equal(records_of(&cache), 2);
    raced.other = &other;
    store_raced(&cache, 3, other_stores_3); // in the room that it has kept, so no other was taken meanwhile
    assert_int_equal(other.counts.stored, 1);
    assert_int_equal(cache.spare.bytes, 0);
    assert_int_equal(records_of(&cache), 2);
    store(&other, 4);
    assert_true(has(&cache, 1) && has(&cache, 3) && has(&cache, 4));
    raced.other = &cache;
    store_raced(&other, 5, other_stores_5);
    assert_int_equal(records_of(&cache), 5);
    atomic_store((_Atomic uint64_t *)(void *)(cache.memory + 64), other.spare.offset + other.spare.bytes);
    sample_cache_close(&other); // as if the cache had given back what it took later
    assert_int_equal(records_of(&cache), 3);
    sample_cache_close(&cache);
}

#define THREADS 3
static _Atomic uint32_t arrived;

static void *store_all(void *of) {
    struct sample_cache *cache = of;
    for (uint32_t entry = 0; entry < ENTRIES; entry++) {
        // Relaxed: nothing but the cache itself may order what they do.
        atomic_fetch_add_explicit(&arrived, 1, memory_order_relaxed);
        while (atomic_load_explicit(&arrived, memory_order_relaxed) < THREADS * (entry + 1))
            sched_yield();
        store(cache, entry);
    }
    return NULL;
}

// No record is written over, and each of them has at most the room of one record left.
static void many_store_the_same(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    struct sample_cache caches[THREADS];
    for (uint32_t round = 0; round < 50; round++) {
        assert_true(sample_cache_plan(&plan, ENTRIES, BYTES + ENTRIES * 3328, false));
        make_memory();
        close_fd(&file);
        uint64_t stored = 0;
        atomic_store(&arrived, 0);
        struct sample_cache cache = opened();
        for (uint32_t i = 0; i < THREADS; i++)
            caches[i] = cache; // the same addresses, so that the thread sanitizer sees what they do
        for (uint32_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, store_all, &caches[i]), 0);
        for (uint32_t i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            stored += caches[i].counts.stored;
        }
        assert_int_equal(stored, ENTRIES);
        for (uint32_t entry = 0; entry < ENTRIES; entry++)
            assert_true(has(&cache, entry));
        assert_in_range(records_of(&cache), ENTRIES, ENTRIES + THREADS);
        sample_cache_close(&cache);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_keeps_its_room_for_its_next_record),
        cmocka_unit_test(room_is_kept_in_parts),
        cmocka_unit_test(the_second_gives_its_room_back),
        cmocka_unit_test(many_store_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
