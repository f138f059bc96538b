// Where a loader's blocks lie: an entry for each one that it has decoded or is loading, and the memory of both, which
// it gets at the start (block_cache.h). What was used last is kept.
#ifndef FEEDD_DAEMON_LOADER_BLOCK_BLOCK_STORE_H
#define FEEDD_DAEMON_LOADER_BLOCK_BLOCK_STORE_H

#include "block/block.h"
#include "daemon/loader/block/arena.h"
#include "daemon/loader/block/block_wait.h"
#include "shm/block_share.h"

enum block_state {
    BLOCK_FREE,
    BLOCK_READING,
    BLOCK_READ,
    BLOCK_DECODED,
};

struct block_entry {
    TAILQ_ENTRY(block_entry) link; // of the entries in that state
    LIST_ENTRY(block_entry) same;  // with the same hash, unless it is free
    enum block_state state;
    uint64_t number;
    uint64_t word; // this loader's in the share: its claim, or what it offers; 0: none
    const struct index_block *block;
    uint32_t file;
    uint32_t unread; // requests that have not come back
    struct arena_piece *work, *decoded;
    struct block_waits waits;
    int32_t code; // of the first read that failed
    uint64_t failed_offset;
    uint64_t moved_ns; // when a read last came back, or was started
};

TAILQ_HEAD(block_entry_list, block_entry);
LIST_HEAD(block_bucket, block_entry);

struct block_store {
    struct arena work, arena;        // what blocks need until they are decoded, and what they become
    const struct block_share *share; // in which `arena` lies; or NULL
    uint64_t loading_bytes;          // that those become that are reading or read
    // By state; `decoded` with the one that was used longest ago first.
    struct block_entry_list free, reading, read, decoded;
    struct block_entry *entries;
    struct block_bucket *buckets;
    uint64_t bucket_mask;
};

// See block_cache_open. To be closed in any case.
int block_store_open(struct block_store *store, uint64_t work_bytes, uint64_t bytes,
                     const struct block_share *share, struct error *error);
void block_store_close(struct block_store *store);

// NULL: this loader neither has the block nor loads it.
struct block_entry *block_store_find(struct block_store *store, uint64_t number);

// An entry, which is still free, with memory for a block. NULL: there is none now.
struct block_entry *block_store_make(struct block_store *store, const struct index_block *block);
// ... and it is not needed after all; or is BLOCK_READING from now on, as the block with this number.
void block_store_unmake(struct block_store *store, struct block_entry *entry);
void block_store_begin(struct block_store *store, struct block_entry *entry, uint64_t number,
                       const struct index_block *block);

// The only way in which an entry's state changes. A transition that is not in the table aborts the process.
void block_store_set_state(struct block_store *store, struct block_entry *entry, enum block_state state);

// It has been read, and decoded if it could be: gives back what was needed only for that.
void block_store_end_loading(struct block_store *store, struct block_entry *entry);

// A decoded block was used.
void block_store_use(struct block_store *store, struct block_entry *entry);

// Forgets a block that is not being loaded, and offers it to nobody any more. Returns how many bytes are free in one
// piece where it was.
uint64_t block_store_forget(struct block_store *store, struct block_entry *entry);

#endif
