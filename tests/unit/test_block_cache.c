// The cache of blocks, with reads that this test does itself: what is kept, what is decoded again, and what fails.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "daemon/loader/block/arena.h"
#include "daemon/loader/block/block_cache.h"

#define BLOCKS 12u
#define BYTES  4000u // of a block when decoded

static struct world {
    struct block_cache *cache;
    struct index_block blocks[BLOCKS];
    uint8_t stored[BLOCKS][BYTES];
    struct block_wait waits[64];
    uint32_t wanted, told, failed;
} world;

static void open_world(uint64_t bytes) {
    uint8_t plain[BYTES];
    struct error error = {0};
    uint64_t work = 0;
    memset(&world, 0, sizeof world);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        memset(plain, (int)i + 1, sizeof plain);
        size_t count = ZSTD_compress(world.stored[i], BYTES, plain, sizeof plain, 1);
        assert_false(ZSTD_isError(count));
        world.blocks[i] = (struct index_block){
            .stored = {{.bytes = count}}, .decoded = BYTES, .file = i, .codec = BLOCK_ZSTD};
        work = max_u64(work, block_work(&world.blocks[i]).bytes);
    }
    assert_int_equal(block_cache_open(&world.cache, 3 * work, bytes, NULL, &error), 0);
}

static void close_world(void) {
    block_cache_close(world.cache);
}

static void loaded(void *context, const struct block_result *result) {
    (void)context;
    for (const struct block_wait *wait = result->waiting; wait; wait = wait->next) {
        world.told++;
        if (!result->found.decoded) {
            world.failed++;
            assert_true(result->code < 0 && result->damaged == (result->code == -EBADMSG));
            assert_true(!result->damaged || *result->sentence);
            continue;
        }
        for (uint32_t i = 0; i < BYTES; i++)
            assert_int_equal(result->found.decoded[i], wait->number + 1);
    }
}

static void want(uint32_t number) {
    struct block_wait *wait = &world.waits[world.wanted++ % COUNT_OF(world.waits)];
    *wait = (struct block_wait){
        .number = number, .block = &world.blocks[number], .file = world.blocks[number].file};
    block_cache_want(world.cache, wait);
}

// Reads and decodes until nothing is left to do. `result` is that of all reads.
static void work(int32_t result) {
    struct read_request *list;
    for (;;) {
        while ((list = block_cache_start(world.cache, 7, loaded, NULL)))
            for (struct read_request *next; list; list = next) {
                next = list->next;
                assert_int_equal(list->segment, BLOCK_SEGMENT);
                memcpy(list->pieces->iov_base, world.stored[list->file] + list->offset, list->bytes);
                list->result = result;
                block_cache_read(world.cache, list, 8);
            }
        if (!block_cache_has_read(world.cache))
            break;
        assert_true(block_cache_decode(world.cache, true, loaded, NULL));
    }
    assert_false(block_cache_waits(world.cache));
    assert_int_equal(world.told, world.wanted);
}

static bool is_there(uint32_t number) {
    struct block_found found;
    return block_cache_find(world.cache, number, &world.blocks[number], &found);
}

static void what_was_used_last_is_kept(void **state) {
    (void)state;
    open_world(4 * align_up(BYTES, CACHE_LINE));
    for (uint32_t i = 0; i < 4; i++)
        want(i);
    work(0);
    assert_true(is_there(1) && is_there(2) && is_there(3) && is_there(0));
    want(4);
    work(0);
    assert_true(is_there(0) && !is_there(1) && is_there(2) && is_there(3) && is_there(4));
    assert_int_equal(block_cache_counts(world.cache).decoded, 5);
    assert_int_equal(block_cache_counts(world.cache).decoded_bytes, 5 * BYTES);
    close_world();
}

static void those_who_want_the_same_block_share_it(void **state) {
    (void)state;
    open_world(BLOCKS * align_up(BYTES, CACHE_LINE));
    for (uint32_t i = 0; i < 3 * BLOCKS; i++)
        want(i % BLOCKS);
    work(0);
    want(3); // which is there, although nobody has looked
    work(0);
    assert_int_equal(block_cache_counts(world.cache).decoded, BLOCKS);
    close_world();
}

static void memory_for_one_is_enough(void **state) {
    (void)state;
    open_world(align_up(BYTES, CACHE_LINE));
    for (uint32_t i = 0; i < 3 * BLOCKS; i++)
        want(i * 5 % BLOCKS);
    work(0);
    assert_int_equal(block_cache_counts(world.cache).decoded, 3 * BLOCKS);
    close_world();
}

static void failures_are_told_and_not_kept(void **state) {
    (void)state;
    open_world(4 * align_up(BYTES, CACHE_LINE));
    want(2);
    work(-EIO);
    assert_int_equal(world.failed, 1);
    world.stored[2][0] ^= 1;
    want(2);
    work(0);
    world.stored[2][0] ^= 1;
    world.blocks[2].decoded--; // more than it says
    want(2);
    work(0);
    world.blocks[2].decoded += 2; // less
    want(2);
    work(0);
    assert_int_equal(world.failed, 4);
    world.blocks[2].decoded = BYTES;
    want(2);
    work(0);
    assert_true(world.failed == 4 && is_there(2));
    close_world();
}

static void the_oldest_read_is_named(void **state) {
    (void)state;
    uint32_t file;
    uint64_t since;
    open_world(4 * align_up(BYTES, CACHE_LINE));
    assert_false(block_cache_oldest(world.cache, &file, &since));
    want(5);
    struct read_request *request = block_cache_start(world.cache, 100, loaded, NULL);
    assert_non_null(request);
    assert_true(block_cache_oldest(world.cache, &file, &since) && file == 5 && since == 100);
    request->result = -EIO;
    block_cache_read(world.cache, request, 101);
    assert_false(block_cache_oldest(world.cache, &file, &since));
    work(0);
    close_world();
}

// Random sizes: pieces never overlap, and all of the memory is one piece again at the end.
static void pieces_are_apart(void **state) {
    (void)state;
    enum {
        MOST = 40
    };
    struct arena arena;
    struct arena_piece *taken[MOST] = {0};
    struct error error = {0};
    uint64_t random = 1;
    assert_int_equal(arena_open(&arena, 1 << 16, MOST, &error), 0);
    for (uint32_t round = 0; round < 20000; round++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        struct arena_piece **place = &taken[(random >> 33) % MOST];
        if (*place) {
            for (uint64_t i = 0; i < (*place)->bytes; i++)
                assert_int_equal((*place)->memory[i], place - taken);
            arena_give(&arena, *place);
            *place = NULL;
        } else if ((*place = arena_take(&arena, (random >> 40) % 5000))) {
            assert_int_equal((uintptr_t)(*place)->memory % CACHE_LINE, 0);
            memset((*place)->memory, (int)(place - taken), (*place)->bytes);
        }
    }
    for (uint32_t i = 0; i < MOST; i++)
        if (taken[i])
            arena_give(&arena, taken[i]);
    assert_non_null(arena_take(&arena, 1 << 16));
    assert_null(arena_take(&arena, 1));
    arena_close(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_used_last_is_kept),
        cmocka_unit_test(those_who_want_the_same_block_share_it),
        cmocka_unit_test(memory_for_one_is_enough),
        cmocka_unit_test(failures_are_told_and_not_kept),
        cmocka_unit_test(the_oldest_read_is_named),
        cmocka_unit_test(pieces_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
