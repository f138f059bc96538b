// Decoded blocks that the loaders of one feed share: a sealed memory file with one word per block of the dataset (of a
// mix, of all its parts), one byte per block, and one arena per loader, in which only that loader decodes.
//
//   offset 0            used_offset         arenas_offset
//   ┌───────────────────┬───────────────────┬───────────────────┬───────────────────┬───┐
//   │ words u64[blocks] │ used u8[blocks]   │ arena 0           │ arena 1           │ … │
//   └───────────────────┴───────────────────┴───────────────────┴───────────────────┴───┘
//
// A word says who has a block:
//
//   EMPTY --claim, any loader--> CLAIMED --publish, its owner--> DECODED --withdraw, its owner--> EMPTY
//                                CLAIMED --withdraw, its owner--> EMPTY
//                                CLAIMED --claim, a loader that has lost patience--> CLAIMED
//
// Readers pin nothing: they find a block, copy from it, and ask afterwards whether it was there all the time. So a
// loader that is killed anywhere leaves nothing that another one would have to wait for longer than its own patience.
//
// All loaders of a feed can write to all of it, and any of them may have been taken over: a word is read once and
// checked before it is used as an address, and nothing that is read here leads out of the map. What a loader needs to
// know of its own arena, it knows itself.
#ifndef FEEDD_SHM_BLOCK_SHARE_H
#define FEEDD_SHM_BLOCK_SHARE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"

// Beyond that, each loader decodes for itself: a loader that starts goes through all words.
#define BLOCK_SHARE_MOST_BLOCKS (1ull << 21)
#define BLOCK_SHARE_MOST_ARENAS 64u
#define BLOCK_SHARE_MOST_BYTES  (1ull << 38) // of an arena

struct block_share_plan {
    uint64_t blocks; // 0: nothing is shared
    uint32_t arenas;
    uint64_t arena_bytes; // a multiple of a page
    uint64_t used_offset, arenas_offset, total_bytes;
};

// `arena_bytes` are rounded up. False: nothing is to be shared, or that is too much to be; `plan` is then all zeros.
bool block_share_plan(struct block_share_plan *plan, uint64_t blocks, uint32_t arenas, uint64_t arena_bytes);

// The file, sealed, which takes no memory before it is written to. Does not block. The caller closes *fd.
int block_share_create(const struct block_share_plan *plan, int *fd, struct error *error);

struct block_share {
    struct block_share_plan plan;
    uint32_t arena; // this loader's
    uint8_t *memory;
    _Atomic uint64_t *words;
    _Atomic uint8_t *used;
};

// Maps the file for the loader with that arena, and empties the arena of what a loader before it has left, which must
// be gone. -EPROTO: the file is not as planned.
int block_share_open(struct block_share *share, const struct block_share_plan *plan, uint32_t arena, int fd,
                     struct error *error);
void block_share_close(struct block_share *share);

// This loader's arena, of plan.arena_bytes.
uint8_t *block_share_arena(const struct block_share *share);

// ---- Of one block, which is less than plan.blocks ----------------------------------------------------------

enum block_share_state {
    BLOCK_SHARE_EMPTY,   // to be claimed
    BLOCK_SHARE_CLAIMED, // another loader is decoding it, or has died
    BLOCK_SHARE_DECODED, // `decoded` may be copied from
};

struct block_share_seen {
    uint64_t word;
    const uint8_t *decoded; // of as many bytes as were asked for, in any loader's arena
};

// Looks at a block of `bytes` bytes when decoded.
enum block_share_state block_share_look(const struct block_share *share, uint64_t block, uint64_t bytes,
                                        struct block_share_seen *seen);

// After a copy from seen->decoded: whether the block was there until the copy was complete. Otherwise what was copied
// is worth nothing.
bool block_share_held(const struct block_share *share, uint64_t block, const struct block_share_seen *seen);

// Claims a block that was EMPTY when it was seen, or that has been CLAIMED for too long. Returns the loader's own word,
// for publish and withdraw; 0: somebody was faster.
uint64_t block_share_claim(const struct block_share *share, uint64_t block,
                           const struct block_share_seen *seen);

// Offers a claimed block that has been decoded, at this place of the own arena, a multiple of a cache line. Returns the
// new word; 0: another loader has lost patience and claimed it, so that nothing is offered.
uint64_t block_share_publish(const struct block_share *share, uint64_t block, uint64_t word,
                             const uint8_t *decoded);

// Takes back a claim, or a block before its memory is written to again. `word` 0: there is nothing to take back.
void block_share_withdraw(const struct block_share *share, uint64_t block, uint64_t word);

// Whether another loader has used the block since this was last asked.
bool block_share_was_used(const struct block_share *share, uint64_t block);

#endif
