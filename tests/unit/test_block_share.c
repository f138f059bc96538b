// Blocks that loaders share: words and what they lead to, and processes that are killed in the middle.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "tests/unit/block_share_fixture.h"

// ---- Words -------------------------------------------------------------------------------------------------

static void plans_have_bounds(void **state) {
    (void)state;
    struct block_share share;
    struct error error = {0};
    assert_false(block_share_plan(&plan, 0, 2, 1));
    assert_false(block_share_plan(&plan, 1, 1, 1));
    assert_false(block_share_plan(&plan, BLOCK_SHARE_MOST_BLOCKS + 1, 2, 1));
    assert_false(block_share_plan(&plan, 1, BLOCK_SHARE_MOST_ARENAS + 1, 1));
    assert_false(block_share_plan(&plan, 1, 2, BLOCK_SHARE_MOST_BYTES));
    assert_int_equal(plan.total_bytes, 0);
    make_file();
    assert_int_equal(block_share_open(&share, &plan, ARENAS, file, &error), -EPROTO);
    plan.total_bytes++;
    assert_int_equal(block_share_open(&share, &plan, 0, file, &error), -EPROTO);
    assert_true(ftruncate(file, 0) < 0 && errno == EPERM);
    close_fd(&file);
}

static void a_block_goes_from_one_to_the_other(void **state) {
    (void)state;
    make_file();
    struct block_share one = open_share(0), two = open_share(2);
    struct block_share_seen seen, stale;
    assert_int_equal(block_share_look(&one, 5, BYTES, &seen), BLOCK_SHARE_EMPTY);
    stale = seen;
    uint64_t word = block_share_claim(&one, 5, &seen);
    assert_true(word);
    assert_false(block_share_claim(&two, 5, &stale));
    assert_int_equal(block_share_look(&two, 5, BYTES, &seen), BLOCK_SHARE_CLAIMED);
    memset(block_share_arena(&one) + BYTES, 7, BYTES);
    word = block_share_publish(&one, 5, word, block_share_arena(&one) + BYTES);
    assert_true(word);
    assert_int_equal(block_share_look(&two, 5, BYTES, &seen), BLOCK_SHARE_DECODED);
    assert_true(seen.decoded[0] == 7 && seen.decoded[BYTES - 1] == 7);
    assert_false(block_share_was_used(&one, 5));
    assert_true(block_share_held(&two, 5, &seen));
    assert_true(block_share_was_used(&one, 5) && !block_share_was_used(&one, 5));
    block_share_withdraw(&one, 5, word);
    assert_false(block_share_held(&two, 5, &seen));
    // Even if the same block is decoded again at the same place.
    stale = seen;
    assert_int_equal(block_share_look(&one, 5, BYTES, &seen), BLOCK_SHARE_EMPTY);
    word = block_share_claim(&one, 5, &seen);
    assert_true(block_share_publish(&one, 5, word, block_share_arena(&one) + BYTES));
    assert_false(block_share_held(&two, 5, &stale));
    block_share_close(&one);
    block_share_close(&two);
    close_fd(&file);
}

static void whoever_has_lost_a_claim_offers_nothing(void **state) {
    (void)state;
    make_file();
    struct block_share one = open_share(0), two = open_share(1);
    struct block_share_seen seen;
    block_share_look(&one, 0, BYTES, &seen);
    uint64_t late = block_share_claim(&one, 0, &seen);
    assert_int_equal(block_share_look(&two, 0, BYTES, &seen), BLOCK_SHARE_CLAIMED);
    uint64_t word = block_share_claim(&two, 0, &seen);
    assert_true(late && word && late != word);
    assert_false(block_share_publish(&one, 0, late, block_share_arena(&one)));
    block_share_withdraw(&one, 0, late);
    assert_true(block_share_publish(&two, 0, word, block_share_arena(&two)));
    assert_false(block_share_publish(&two, 1, 0, block_share_arena(&two)));
    block_share_close(&one);
    block_share_close(&two);
    close_fd(&file);
}

// Whatever another loader writes there, nothing is read outside of an arena, and the block can be had.
static void words_that_lie(void **state) {
    (void)state;
    make_file();
    struct block_share one = open_share(0);
    const uint8_t *begin = one.memory + plan.arenas_offset, *end = one.memory + plan.total_bytes;
    uint64_t random = 1, shown = 0;
    for (uint32_t round = 0; round < 200000; round++) {
        struct block_share_seen seen;
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint64_t lie = random ^ random >> 29;
        if (round % 2)
            lie &= UINT64_C(0xffffffffff); // a small place
        atomic_store(&one.words[3], lie);
        uint64_t bytes = round % 3 ? BYTES : random >> 20;
        enum block_share_state found = block_share_look(&one, 3, bytes, &seen);
        assert_int_equal(seen.word, lie);
        if (found != BLOCK_SHARE_DECODED) {
            assert_null(seen.decoded);
            continue;
        }
        shown++;
        assert_true(seen.decoded >= begin && bytes <= (uint64_t)(end - seen.decoded));
    }
    assert_true(shown > 100);
    atomic_store(&one.words[3], UINT64_MAX - 1); // DECODED, in an arena that there is not
    struct block_share_seen seen;
    assert_int_equal(block_share_look(&one, 3, BYTES, &seen), BLOCK_SHARE_EMPTY);
    assert_true(block_share_claim(&one, 3, &seen));
    block_share_close(&one);
    close_fd(&file);
}

// ---- Processes that are killed -----------------------------------------------------------------------------

// What the processes of the test report: the kernel zeroes it.
struct report {
    _Atomic uint64_t copied, decoded, lost, wrong;
};

static struct report *report;

static uint8_t value_of(uint64_t block) {
    return (uint8_t)(17 * block + 1);
}

static void decode(const struct block_share *share, uint64_t block, const struct block_share_seen *seen,
                   uint64_t owned[ROOM], uint64_t words[ROOM], uint64_t place) {
    uint64_t word = block_share_claim(share, block, seen);
    uint8_t *memory = block_share_arena(share) + place * BYTES;
    if (!word)
        return;
    block_share_withdraw(share, owned[place], words[place]);
    memset(memory, value_of(block), BYTES);
    owned[place] = block;
    words[place] = block_share_publish(share, block, word, memory);
    atomic_fetch_add(&report->decoded, 1);
}

static void copy(const struct block_share *share, uint64_t block, const struct block_share_seen *seen) {
    uint8_t copied[BYTES];
    memcpy(copied, seen->decoded, BYTES);
    if (!block_share_held(share, block, seen)) {
        atomic_fetch_add(&report->lost, 1);
        return;
    }
    atomic_fetch_add(&report->copied, 1);
    for (uint32_t i = 0; i < BYTES; i++)
        if (copied[i] != value_of(block)) {
            atomic_fetch_add(&report->wrong, 1);
            break;
        }
}

// More blocks than all arenas have room for, so that memory is written to again all the time.
static _Noreturn void work_forever(uint32_t arena) {
    struct block_share share;
    struct error error = {0};
    uint64_t owned[ROOM] = {0}, words[ROOM] = {0}, place = 0, random = arena + 1;
    if (block_share_open(&share, &plan, arena, file, &error))
        _exit(1);
    for (;;) {
        struct block_share_seen seen;
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        const uint64_t block = (random >> 33) % BLOCKS;
        enum block_share_state state = block_share_look(&share, block, BYTES, &seen);
        if (state == BLOCK_SHARE_DECODED)
            copy(&share, block, &seen);
        else
            decode(&share, block, &seen, owned, words, place++ % ROOM); // also what another one has claimed
    }
}

static pid_t start(uint32_t arena) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        work_forever(arena);
    return child;
}

static void end(pid_t child) {
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void what_was_there_all_the_time_is_right(void **state) {
    (void)state;
    pid_t children[ARENAS];
    uint64_t random = 5;
    make_file();
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(report != MAP_FAILED);
    for (uint32_t i = 0; i < ARENAS; i++)
        children[i] = start(i);
    for (uint32_t round = 0; round < 300; round++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        const uint32_t i = (uint32_t)(random >> 33) % ARENAS;
        usleep((useconds_t)(random >> 40) % 8000);
        end(children[i]);
        children[i] = start(i);
    }
    const uint64_t before = report->copied, until = monotonic_ns() + 20 * NS_PER_S;
    while (report->copied < before + 1000 && monotonic_ns() < until)
        usleep(1000);
    for (uint32_t i = 0; i < ARENAS; i++)
        end(children[i]);
    assert_int_equal(report->wrong, 0);
    assert_true(report->copied >= before + 1000 && report->decoded > 1000);
    munmap(report, sizeof *report);
    close_fd(&file);
}

// The next loader with that arena offers nothing of what the one before it left, and gives the memory back.
static void an_arena_is_emptied(void **state) {
    (void)state;
    make_file();
    struct block_share one = open_share(0), two = open_share(1);
    struct block_share_seen seen[4];
    uint64_t words[4];
    for (uint32_t i = 0; i < 4; i++) {
        block_share_look(&one, i, BYTES, &seen[i]);
        words[i] = block_share_claim(i == 3 ? &two : &one, i, &seen[i]);
    }
    memset(block_share_arena(&one), 1, BYTES);
    block_share_publish(&one, 0, words[0], block_share_arena(&one));
    block_share_publish(&two, 3, words[3], block_share_arena(&two));
    assert_int_equal(block_share_look(&two, 0, BYTES, &seen[0]), BLOCK_SHARE_DECODED);
    block_share_close(&one);
    one = open_share(0);
    assert_false(block_share_held(&two, 0, &seen[0]));
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(block_share_look(&two, i, BYTES, &seen[i]),
                         i == 3 ? BLOCK_SHARE_DECODED : BLOCK_SHARE_EMPTY);
    assert_int_equal(block_share_arena(&one)[0], 0);
    block_share_close(&one);
    block_share_close(&two);
    close_fd(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_have_bounds),
        cmocka_unit_test(a_block_goes_from_one_to_the_other),
        cmocka_unit_test(whoever_has_lost_a_claim_offers_nothing),
        cmocka_unit_test(words_that_lie),
        cmocka_unit_test(what_was_there_all_the_time_is_right),
        cmocka_unit_test(an_arena_is_emptied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
