// Caches of blocks that share what they decode, and wait for each other.
#include <string.h>
#include <zstd.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/loader/block/block_cache.h"
#include "tests/unit/block_share_fixture.h"

static uint8_t value_of(uint64_t block) {
    return (uint8_t)(17 * block + 1);
}

static struct side {
    struct block_share share;
    struct block_cache *cache;
    struct block_wait waits[64];
    uint32_t wanted, told, failed;
} sides[2];
static struct index_block blocks[BLOCKS];
static uint8_t stored[BLOCKS][BYTES];

static void open_sides(void) {
    struct error error = {0};
    uint8_t plain[BYTES];
    uint64_t work = 0;
    make_file();
    memset(sides, 0, sizeof sides);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        memset(plain, value_of(i), sizeof plain);
        size_t count = ZSTD_compress(stored[i], BYTES, plain, sizeof plain, 1);
        assert_false(ZSTD_isError(count));
        blocks[i] = (struct index_block){
            .stored = {{.bytes = count}}, .decoded = BYTES, .file = i, .codec = BLOCK_ZSTD};
        work = max_u64(work, block_work(&blocks[i]).bytes);
    }
    for (uint32_t i = 0; i < COUNT_OF(sides); i++) {
        sides[i].share = open_share(i);
        assert_int_equal(block_cache_open(&sides[i].cache, 3 * work, ROOM * BYTES, &sides[i].share, &error),
                         0);
    }
}

static void close_sides(void) {
    for (uint32_t i = 0; i < COUNT_OF(sides); i++) {
        block_cache_close(sides[i].cache);
        block_share_close(&sides[i].share);
    }
    close_fd(&file);
}

static void loaded(void *context, const struct block_result *result) {
    struct side *side = context;
    for (struct block_wait *wait = result->waiting, *next; wait; wait = next) {
        next = wait->next;
        side->told++;
        if (!result->found.decoded) {
            side->failed++;
            continue;
        }
        assert_int_equal(result->found.decoded[BYTES - 1], value_of(wait->number));
        assert_true(block_cache_held(side->cache, &result->found));
    }
}

static void want(struct side *side, uint64_t number) {
    struct block_wait *wait = &side->waits[side->wanted++ % COUNT_OF(side->waits)];
    *wait = (struct block_wait){.number = number, .block = &blocks[number], .file = blocks[number].file};
    block_cache_want(side->cache, wait);
}

static struct read_request *begin(struct side *side, uint64_t now_ns) {
    return block_cache_start(side->cache, now_ns, loaded, side);
}

static void finish(struct side *side, struct read_request *list) {
    assert_non_null(list);
    memcpy(list->pieces->iov_base, stored[list->file] + list->offset, list->bytes);
    list->result = 0;
    block_cache_read(side->cache, list, 8);
    assert_true(block_cache_decode(side->cache, true, loaded, side));
}

static uint64_t decoded(const struct side *side) {
    return block_cache_counts(side->cache).decoded;
}

static bool finds(struct side *side, uint64_t number, bool shared) {
    struct block_found found;
    return block_cache_find(side->cache, number, &blocks[number], &found) && found.is_shared == shared &&
           found.decoded[0] == value_of(number) && block_cache_held(side->cache, &found);
}

static void a_block_is_decoded_once(void **state) {
    (void)state;
    open_sides();
    want(&sides[0], 1);
    struct read_request *list = begin(&sides[0], 5);
    want(&sides[1], 1);
    assert_null(begin(&sides[1], 5));
    assert_true(block_cache_waits_for_others(sides[1].cache) && block_cache_is_at_rest(sides[1].cache));
    want(&sides[1], 2); // meanwhile
    finish(&sides[1], begin(&sides[1], 6));
    finish(&sides[0], list);
    assert_null(begin(&sides[1], 7));
    assert_int_equal(sides[1].told, 2);
    assert_false(block_cache_waits_for_others(sides[1].cache));
    assert_true(finds(&sides[0], 1, false) && finds(&sides[1], 1, true) && finds(&sides[0], 2, true));
    assert_true(decoded(&sides[0]) == 1 && decoded(&sides[1]) == 1);
    close_sides();
}

static void patience_ends(void **state) {
    (void)state;
    open_sides();
    want(&sides[0], 1);
    struct read_request *list = begin(&sides[0], 5);
    want(&sides[1], 1);
    want(&sides[1], 1);
    assert_null(begin(&sides[1], 5));
    assert_null(begin(&sides[1], 90 * NS_PER_MS));
    finish(&sides[1], begin(&sides[1], NS_PER_S));
    assert_null(begin(&sides[1], NS_PER_S));
    assert_int_equal(sides[1].told, 2);
    finish(&sides[0], list); // late, for itself alone
    assert_true(finds(&sides[0], 1, false) && finds(&sides[1], 1, false));
    struct block_share third = open_share(2);
    struct block_share_seen seen;
    assert_int_equal(block_share_look(&third, 1, BYTES, &seen), BLOCK_SHARE_DECODED);
    const uint8_t *own = third.memory + (block_share_arena(&sides[1].share) - sides[1].share.memory);
    assert_true(seen.decoded >= own && seen.decoded < own + plan.arena_bytes);
    block_share_close(&third);
    close_sides();
}

static void a_loader_that_has_died_is_not_waited_for(void **state) {
    (void)state;
    open_sides();
    want(&sides[0], 1);
    assert_non_null(begin(&sides[0], 5));
    want(&sides[1], 1);
    assert_null(begin(&sides[1], 5));
    struct block_share next = open_share(0); // takes its place
    finish(&sides[1], begin(&sides[1], 6));
    assert_int_equal(sides[1].told, 1);
    block_share_close(&next);
    close_sides();
}

static void damaged_blocks_fail_for_everybody(void **state) {
    (void)state;
    open_sides();
    stored[1][0] ^= 1;
    want(&sides[0], 1);
    struct read_request *list = begin(&sides[0], 5);
    want(&sides[1], 1);
    assert_null(begin(&sides[1], 5));
    finish(&sides[0], list);
    finish(&sides[1], begin(&sides[1], 6));
    assert_true(sides[0].failed == 1 && sides[1].failed == 1);
    stored[1][0] ^= 1;
    close_sides();
}

static void load(struct side *side, uint64_t number) {
    want(side, number);
    finish(side, begin(side, 5));
}

static void what_others_use_is_kept(void **state) {
    (void)state;
    open_sides();
    load(&sides[0], 1);
    load(&sides[0], 2);
    assert_true(finds(&sides[1], 1, true));
    load(&sides[0], 3);
    assert_true(finds(&sides[1], 1, true) && finds(&sides[1], 3, true) && !finds(&sides[1], 2, true));
    close_sides();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_decoded_once),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(a_loader_that_has_died_is_not_waited_for),
        cmocka_unit_test(damaged_blocks_fail_for_everybody),
        cmocka_unit_test(what_others_use_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
