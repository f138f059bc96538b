#include "shm/block_share.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/scope.h"
#include "base/sizes.h"

#define PAGE 4096u

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

// A word:
//   bits 0..1 state, 2..8 arena, 9..31 generation, 32..63 place in the arena, in cache lines (of DECODED)
// Each claim counts the generation up. So a word that is the same before and after a copy was the same all the time,
// unless the block was decoded a multiple of 2^23 times meanwhile, which takes minutes, at the same place.
#define ARENA_SHIFT      2u
#define ARENA_MASK       0x7fu
#define GENERATION_SHIFT 9u
#define GENERATION_MASK  0x7fffffu
#define PLACE_SHIFT      32u
#define STATE_MASK       3u

_Static_assert(BLOCK_SHARE_MOST_ARENAS <= ARENA_MASK, "an arena's number has room");
_Static_assert(BLOCK_SHARE_MOST_BYTES / CACHE_LINE <= 1ull << (64 - PLACE_SHIFT), "a place has room");

static enum block_share_state state_of(uint64_t word) {
    return (enum block_share_state)(word & STATE_MASK);
}

static uint32_t arena_of(uint64_t word) {
    return (uint32_t)(word >> ARENA_SHIFT & ARENA_MASK);
}

static uint64_t word_of(enum block_share_state state, uint32_t arena, uint64_t generation, uint64_t place) {
    return state | (uint64_t)arena << ARENA_SHIFT | (generation & GENERATION_MASK) << GENERATION_SHIFT |
           place << PLACE_SHIFT;
}

static uint64_t generation_of(uint64_t word) {
    return word >> GENERATION_SHIFT & GENERATION_MASK;
}

// ---- The file ----------------------------------------------------------------------------------------------

bool block_share_plan(struct block_share_plan *plan, uint64_t blocks, uint32_t arenas, uint64_t arena_bytes) {
    *plan = (struct block_share_plan){0};
    if (!blocks || blocks > BLOCK_SHARE_MOST_BLOCKS || arenas < 2 || arenas > BLOCK_SHARE_MOST_ARENAS ||
        !arena_bytes || arena_bytes > BLOCK_SHARE_MOST_BYTES - PAGE)
        return false;
    plan->blocks = blocks;
    plan->arenas = arenas;
    plan->arena_bytes = align_up(arena_bytes, PAGE);
    plan->used_offset = blocks * sizeof(uint64_t);
    plan->arenas_offset = align_up(plan->used_offset + blocks, PAGE);
    plan->total_bytes = plan->arenas_offset + arenas * plan->arena_bytes;
    return true;
}

int block_share_create(const struct block_share_plan *plan, int *fd, struct error *error) {
    AUTO_CLOSE int file = memfd_create("feedd-blocks", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (file < 0 && errno == EINVAL) // before Linux 6.3
        file = memfd_create("feedd-blocks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    // The mode keeps other users from opening it through /proc.
    if (file < 0 || fchmod(file, 0600) < 0)
        return error_set(error, -errno, "cannot make a memory file for blocks: %m");
    if (ftruncate(file, (off_t)plan->total_bytes) < 0)
        return error_set(error, -errno, "cannot make a memory file of %" PRIu64 " bytes for blocks: %m",
                         plan->total_bytes);
    if (fcntl(file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return error_set(error, -errno, "cannot seal a memory file for blocks: %m");
    *fd = file;
    file = -1;
    return 0;
}

uint8_t *block_share_arena(const struct block_share *share) {
    return share->memory + share->plan.arenas_offset + share->arena * share->plan.arena_bytes;
}

// A loader that was killed has left claims, and blocks whose memory is now this one's. Others may be copying from them.
static void reset(const struct block_share *share) {
    for (uint64_t block = 0; block < share->plan.blocks; block++) {
        uint64_t word = atomic_load_explicit(&share->words[block], memory_order_relaxed);
        if (state_of(word) != BLOCK_SHARE_EMPTY && arena_of(word) == share->arena)
            block_share_withdraw(share, block, word);
    }
    // Only to give the memory back.
    (void)madvise(block_share_arena(share), share->plan.arena_bytes, MADV_REMOVE);
}

static int map(struct block_share *share, int fd, struct error *error) {
    const struct block_share_plan *plan = &share->plan;
    struct stat status;
    if (share->arena >= plan->arenas || fstat(fd, &status) < 0 ||
        (uint64_t)status.st_size != plan->total_bytes)
        return error_set(error, -EPROTO, "the memory file for blocks is not as planned");
    void *memory = mmap(NULL, plan->total_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map %" PRIu64 " bytes for blocks: %m", plan->total_bytes);
    share->memory = memory;
    // What is another loader's cannot be written to by mistake.
    if (mprotect(memory, plan->arenas_offset, PROT_READ | PROT_WRITE) < 0 ||
        mprotect(block_share_arena(share), plan->arena_bytes, PROT_READ | PROT_WRITE) < 0)
        return error_set(error, -errno, "cannot map memory for blocks: %m");
    share->words = (_Atomic uint64_t *)memory;
    share->used = (_Atomic uint8_t *)(share->memory + plan->used_offset);
    return 0;
}

int block_share_open(struct block_share *share, const struct block_share_plan *plan, uint32_t arena, int fd,
                     struct error *error) {
    *share = (struct block_share){.plan = *plan, .arena = arena};
    int err = map(share, fd, error);
    if (err)
        block_share_close(share);
    else
        reset(share);
    return err;
}

void block_share_close(struct block_share *share) {
    if (share->memory)
        munmap(share->memory, share->plan.total_bytes);
    *share = (struct block_share){0};
}

// ---- Words -------------------------------------------------------------------------------------------------

enum block_share_state block_share_look(const struct block_share *share, uint64_t block, uint64_t bytes,
                                        struct block_share_seen *seen) {
    const struct block_share_plan *plan = &share->plan;
    // Pairs with the release in block_share_publish: what the word leads to has been written.
    const uint64_t word = atomic_load_explicit(&share->words[block], memory_order_acquire);
    const uint64_t place = (word >> PLACE_SHIFT) * CACHE_LINE;
    *seen = (struct block_share_seen){.word = word};
    switch (state_of(word)) {
    case BLOCK_SHARE_CLAIMED:
        return BLOCK_SHARE_CLAIMED;
    case BLOCK_SHARE_DECODED:
        break;
    default:
        return BLOCK_SHARE_EMPTY;
    }
    // Whoever wrote something else is not to be believed, and the block is to be had as if it were not there.
    if (arena_of(word) >= plan->arenas || bytes > plan->arena_bytes || place > plan->arena_bytes - bytes)
        return BLOCK_SHARE_EMPTY;
    seen->decoded = share->memory + plan->arenas_offset + arena_of(word) * plan->arena_bytes + place;
    return BLOCK_SHARE_DECODED;
}

bool block_share_held(const struct block_share *share, uint64_t block, const struct block_share_seen *seen) {
    // Pairs with the fence in block_share_withdraw: if the copy has a byte that was written after it, the load below
    // finds the word withdrawn.
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&share->words[block], memory_order_relaxed) != seen->word)
        return false;
    // A hint for the owner. Looked at first, so that the cache line is not taken from others each time.
    if (arena_of(seen->word) != share->arena &&
        !atomic_load_explicit(&share->used[block], memory_order_relaxed))
        atomic_store_explicit(&share->used[block], 1, memory_order_relaxed);
    return true;
}

uint64_t block_share_claim(const struct block_share *share, uint64_t block,
                           const struct block_share_seen *seen) {
    uint64_t expected = seen->word;
    const uint64_t word = word_of(BLOCK_SHARE_CLAIMED, share->arena, generation_of(seen->word) + 1, 0);
    // Relaxed: it hands over nothing but the work, and the claimer writes only to its own arena.
    return atomic_compare_exchange_strong_explicit(&share->words[block], &expected, word,
                                                   memory_order_relaxed, memory_order_relaxed)
               ? word
               : 0;
}

uint64_t block_share_publish(const struct block_share *share, uint64_t block, uint64_t word,
                             const uint8_t *decoded) {
    uint64_t expected = word;
    const uint64_t place = (uint64_t)(decoded - block_share_arena(share)) / CACHE_LINE;
    const uint64_t offered = word_of(BLOCK_SHARE_DECODED, share->arena, generation_of(word), place);
    if (!word)
        return 0;
    // Release: pairs with the acquire in block_share_look.
    return atomic_compare_exchange_strong_explicit(&share->words[block], &expected, offered,
                                                   memory_order_release, memory_order_relaxed)
               ? offered
               : 0;
}

void block_share_withdraw(const struct block_share *share, uint64_t block, uint64_t word) {
    uint64_t expected = word;
    if (!word)
        return;
    // If the word is another one, it does not lead to this loader's memory: only this loader publishes that.
    atomic_compare_exchange_strong_explicit(&share->words[block], &expected,
                                            word_of(BLOCK_SHARE_EMPTY, 0, generation_of(word), 0),
                                            memory_order_relaxed, memory_order_relaxed);
    // Pairs with the fence in block_share_held: what is written to the memory from here on comes after the withdrawal.
    atomic_thread_fence(memory_order_release);
}

bool block_share_was_used(const struct block_share *share, uint64_t block) {
    return atomic_load_explicit(&share->used[block], memory_order_relaxed) &&
           atomic_exchange_explicit(&share->used[block], 0, memory_order_relaxed);
}
