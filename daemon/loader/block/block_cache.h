// The blocks of one loader: which of them it has decoded, and those that it is loading. Bounded by the memory that it
// gets at the start; what was used last is kept. Loaders of one feed share what they have decoded (shm/block_share.h):
// whoever claims a block first decodes it, into its own arena, and the others copy from there. What another loader has
// claimed is looked at again whenever block_cache_start is called; if it takes too long, it is decoded here, too.
//
//   free --wanted, and there is memory--> reading --reads done--> read --decoded--> decoded --room is needed--> free
//                                                                 read --failed, or damaged--> free
//
// The cache submits no reads itself. Whoever owns it takes the requests of blocks that can be loaded
// (block_cache_start), has them read, and hands them back (block_cache_read).
#ifndef FEEDD_DAEMON_LOADER_BLOCK_BLOCK_CACHE_H
#define FEEDD_DAEMON_LOADER_BLOCK_BLOCK_CACHE_H

#include "daemon/loader/block/block_wait.h"
#include "daemon/loader/read/reader.h"
#include "shm/block_share.h"

struct block_cache;

// Where a block lies that has been decoded, perhaps by another loader, which may need the memory at any time: what is
// copied from there counts only if block_cache_held says so afterwards.
struct block_found {
    const uint8_t *decoded;
    uint64_t number;
    bool is_shared; // it is another loader's
    struct block_share_seen seen;
};

// What became of a block that somebody waited for. Valid until the callback returns.
struct block_result {
    struct block_found found;   // .decoded is NULL: it could not be had:
    int code;                   // negative errno
    bool damaged;               // it was read, but its bytes are not valid
    uint32_t file;              // the request's
    uint64_t offset;            // what could not be read, or where the block begins
    const char *sentence;       // why it could not be decoded; NULL: it could, or it was not read
    struct block_wait *waiting; // linked, in the order in which they came
};
typedef void block_loaded(void *context, const struct block_result *result);

// `work_bytes` is at least block_work() of each block that is going to be wanted, and `bytes` its block_room(). `share`
// outlives the cache, has arenas of `bytes` bytes, and numbers blocks in the same way; NULL: nothing is shared.
int block_cache_open(struct block_cache **cache, uint64_t work_bytes, uint64_t bytes,
                     const struct block_share *share, struct error *error);
// NULL is fine. Requests must not be in a reader's hands any more.
void block_cache_close(struct block_cache *cache);

// What the block has become, valid until the next call but this one; false if it has not been decoded, or no longer.
bool block_cache_find(struct block_cache *cache, uint64_t number, const struct index_block *block,
                      struct block_found *found);

// After a copy from `found`: whether it is right.
bool block_cache_held(const struct block_cache *cache, const struct block_found *found);

// Has a block loaded that find did not find. `wait` has number, block and file, and is handed to block_loaded.
void block_cache_want(struct block_cache *cache, struct block_wait *wait);

// The reads of the next block for which there is memory, linked; NULL: there is none. Their `chunk` is the cache's, and
// their `segment` BLOCK_SEGMENT. Tells of blocks that turn out to be there.
#define BLOCK_SEGMENT UINT16_MAX
struct read_request *block_cache_start(struct block_cache *cache, uint64_t now_ns, block_loaded *loaded,
                                       void *context);

// A request has been read, or has failed for good: request->result.
void block_cache_read(struct block_cache *cache, const struct read_request *request, uint64_t now_ns);

// Whether there are blocks that have not been started; and blocks that can be decoded.
bool block_cache_waits(const struct block_cache *cache);
bool block_cache_has_read(const struct block_cache *cache);

// Whether it waits for blocks that other loaders are decoding; and whether it has no others to load.
bool block_cache_waits_for_others(const struct block_cache *cache);
bool block_cache_is_at_rest(const struct block_cache *cache);

// Decodes the block that was read first, and reports it. There must be one. False, only if `patient`: memory ran out,
// nothing was reported, and the next call decodes the block again.
bool block_cache_decode(struct block_cache *cache, bool patient, block_loaded *loaded, void *context);

// The file of the block of which no read has come back for longest, and since when; false: none is being read.
bool block_cache_oldest(const struct block_cache *cache, uint32_t *file, uint64_t *since_ns);

// Since the cache was opened.
struct block_counts {
    uint64_t decoded, decoded_bytes;
};
struct block_counts block_cache_counts(const struct block_cache *cache);

#endif
