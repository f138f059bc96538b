#include "daemon/loader/block/block_cache.h"

#include <string.h>

#include "base/sizes.h"
#include "base/states.h"
#include "daemon/block/block_decode.h"
#include "daemon/loader/block/arena.h"

#define MOST_BLOCKS  65536u
#define LEAST_BLOCKS 16u
#define MEAN_BYTES   4096u // where blocks are smaller than that, fewer are kept than memory has room for

enum block_state {
    BLOCK_FREE,
    BLOCK_READING,
    BLOCK_READ,
    BLOCK_DECODED,
};

static const struct state states[] = {
    [BLOCK_FREE] = {"free", STATE(BLOCK_READING)},
    [BLOCK_READING] = {"reading", STATE(BLOCK_READ)},
    [BLOCK_READ] = {"read", STATE(BLOCK_DECODED) | STATE(BLOCK_FREE)},
    [BLOCK_DECODED] = {"decoded", STATE(BLOCK_FREE)},
};
static const struct state_table table = STATE_TABLE("block", states);

struct waits {
    struct block_wait *first, **end; // `end` is set once there is a first one
};

struct entry {
    TAILQ_ENTRY(entry) link; // of free, reading, read or decoded
    LIST_ENTRY(entry) same;  // with the same hash, unless it is free
    enum block_state state;
    struct block_name name;
    const struct index_block *block;
    uint32_t file;
    uint32_t unread; // requests that have not come back
    struct arena_piece *work, *decoded;
    struct waits waits;
    int32_t code; // of the first read that failed
    uint64_t failed_offset;
    uint64_t moved_ns; // when a read last came back, or was started
};

TAILQ_HEAD(entry_list, entry);
LIST_HEAD(bucket, entry);

struct block_cache {
    struct arena work, arena; // what blocks need until they are decoded, and what they become
    struct block_decoder decoder;
    struct entry *entries;
    struct bucket *buckets;
    uint64_t bucket_mask;
    // By state; `decoded` with the one that was used longest ago first.
    struct entry_list free, reading, read, decoded;
    struct waits waiting;
    uint64_t loading_bytes; // that those become that are reading or read
    struct block_counts counts;
};

_Static_assert(sizeof(struct read_request) + sizeof(struct iovec) <= BLOCK_READ_ROOM, "reads have room");
#if BLOCK_READ_BYTES > READER_MAX_BYTES
#error "readers do not take as much"
#endif

static void add_wait(struct waits *waits, struct block_wait *wait) {
    wait->next = NULL;
    *(waits->first ? waits->end : &waits->first) = wait;
    waits->end = &wait->next;
}

static struct bucket *bucket_of(struct block_cache *cache, struct block_name name) {
    uint64_t mixed = ((uint64_t)name.part << 32 | name.number) * UINT64_C(0x9e3779b97f4a7c15);
    return &cache->buckets[mixed >> 32 & cache->bucket_mask];
}

static struct entry *find(struct block_cache *cache, struct block_name name) {
    struct entry *entry;
    LIST_FOREACH(entry, bucket_of(cache, name), same)
        if (entry->name.part == name.part && entry->name.number == name.number)
            return entry;
    return NULL;
}

static struct entry_list *list_of(struct block_cache *cache, enum block_state state) {
    switch (state) {
    case BLOCK_READING:
        return &cache->reading;
    case BLOCK_READ:
        return &cache->read;
    case BLOCK_DECODED:
        return &cache->decoded;
    default:
        return &cache->free;
    }
}

static void set_state(struct block_cache *cache, struct entry *entry, enum block_state state) {
    TAILQ_REMOVE(list_of(cache, entry->state), entry, link);
    entry->state = (enum block_state)state_next(&table, entry->state, state);
    TAILQ_INSERT_TAIL(list_of(cache, state), entry, link);
}

// ---- Memory ------------------------------------------------------------------------------------------------

// Forgets a block. Returns how many bytes are free in one piece where it was.
static uint64_t forget(struct block_cache *cache, struct entry *entry) {
    uint64_t room = arena_give(&cache->arena, entry->decoded);
    LIST_REMOVE(entry, same);
    set_state(cache, entry, BLOCK_FREE);
    return room;
}

// Takes memory for what a block becomes, of blocks that were used longest ago if need be.
static struct arena_piece *take(struct block_cache *cache, uint64_t bytes) {
    struct arena_piece *piece = arena_take(&cache->arena, bytes);
    struct entry *oldest;
    while (!piece && (oldest = TAILQ_FIRST(&cache->decoded)))
        if (forget(cache, oldest) >= bytes)
            piece = arena_take(&cache->arena, bytes);
    return piece;
}

// Blocks that are being loaded leave half of the memory to those that are decoded, so that they do not push out what
// was loaded just before, and the next chunk needs.
static bool may_load(const struct block_cache *cache, const struct index_block *block) {
    return !cache->loading_bytes || cache->loading_bytes + block_room(block) <= cache->arena.bytes / 2;
}

// An entry with memory for a block. NULL: not now.
static struct entry *make(struct block_cache *cache, const struct index_block *block) {
    if (!may_load(cache, block))
        return NULL;
    if (TAILQ_EMPTY(&cache->free) && !TAILQ_EMPTY(&cache->decoded))
        forget(cache, TAILQ_FIRST(&cache->decoded));
    struct entry *entry = TAILQ_FIRST(&cache->free);
    struct arena_piece *work = entry ? arena_take(&cache->work, block_work(block).bytes) : NULL;
    struct arena_piece *decoded = work ? take(cache, block->decoded) : NULL;
    if (!decoded) {
        if (work)
            arena_give(&cache->work, work);
        return NULL;
    }
    entry->work = work;
    entry->decoded = decoded;
    return entry;
}

// ---- Opening -----------------------------------------------------------------------------------------------

int block_cache_open(struct block_cache **out, uint64_t work_bytes, uint64_t bytes, struct error *error) {
    const uint32_t most = (uint32_t)min_u64(max_u64(bytes / MEAN_BYTES, LEAST_BLOCKS), MOST_BLOCKS);
    const uint64_t buckets = power_of_two_up(most);
    struct block_cache *cache = *out = calloc(1, sizeof *cache);
    if (!cache)
        return error_set(error, -ENOMEM, "no memory for blocks");
    TAILQ_INIT(&cache->free);
    TAILQ_INIT(&cache->reading);
    TAILQ_INIT(&cache->read);
    TAILQ_INIT(&cache->decoded);
    cache->entries = calloc(most, sizeof *cache->entries);
    cache->buckets = calloc(buckets, sizeof *cache->buckets);
    cache->bucket_mask = buckets - 1;
    int err = cache->entries && cache->buckets ? block_decoder_open(&cache->decoder, error)
                                               : error_set(error, -ENOMEM, "no memory for blocks");
    if (!err)
        err = arena_open(&cache->work, align_up(work_bytes, CACHE_LINE), most, error);
    if (!err)
        err = arena_open(&cache->arena, align_up(bytes, CACHE_LINE), most, error);
    for (uint32_t i = 0; i < most && !err; i++)
        TAILQ_INSERT_TAIL(&cache->free, &cache->entries[i], link);
    if (!err)
        return 0;
    block_cache_close(cache);
    *out = NULL;
    return err;
}

void block_cache_close(struct block_cache *cache) {
    if (!cache)
        return;
    arena_close(&cache->arena);
    arena_close(&cache->work);
    block_decoder_close(&cache->decoder);
    free(cache->entries);
    free(cache->buckets);
    free(cache);
}

// ---- Loading -----------------------------------------------------------------------------------------------

const uint8_t *block_cache_find(struct block_cache *cache, struct block_name name) {
    struct entry *entry = find(cache, name);
    if (!entry || entry->state != BLOCK_DECODED)
        return NULL;
    TAILQ_REMOVE(&cache->decoded, entry, link);
    TAILQ_INSERT_TAIL(&cache->decoded, entry, link);
    return entry->decoded->memory;
}

void block_cache_want(struct block_cache *cache, struct block_wait *wait) {
    struct entry *entry = find(cache, wait->name);
    add_wait(entry && entry->state != BLOCK_DECODED ? &entry->waits : &cache->waiting, wait);
}

// The requests and their pieces lie at the front of the entry's work piece.
static struct read_request *plan_reads(struct entry *entry) {
    const uint64_t count = block_reads(entry->block);
    struct read_request *requests = (struct read_request *)(void *)entry->work->memory, *next = requests;
    struct iovec *piece = (struct iovec *)(void *)(requests + count);
    uint8_t *to = entry->work->memory + block_work(entry->block).stored;
    for (uint32_t i = 0; i < BLOCK_RANGES; i++) {
        const struct block_range *range = &entry->block->stored[i];
        for (uint64_t done = 0; done < range->bytes; done += BLOCK_READ_BYTES, next++, piece++) {
            const uint64_t bytes = min_u64(range->bytes - done, BLOCK_READ_BYTES);
            *piece = (struct iovec){to, bytes};
            *next = (struct read_request){.file = entry->file,
                                          .offset = range->offset + done,
                                          .bytes = (uint32_t)bytes,
                                          .pieces = piece,
                                          .piece_count = 1,
                                          .segment = BLOCK_SEGMENT,
                                          .chunk = entry,
                                          .next = next + 1};
            to += bytes;
        }
    }
    requests[count - 1].next = NULL;
    entry->unread = (uint32_t)count;
    return requests;
}

static struct read_request *load(struct block_cache *cache, struct block_wait *wait, uint64_t now_ns) {
    struct entry *entry = make(cache, wait->block);
    if (!entry)
        return NULL;
    entry->name = wait->name;
    entry->block = wait->block;
    entry->file = wait->file;
    entry->waits = (struct waits){0};
    entry->code = 0;
    entry->moved_ns = now_ns;
    LIST_INSERT_HEAD(bucket_of(cache, wait->name), entry, same);
    set_state(cache, entry, BLOCK_READING);
    cache->loading_bytes += block_room(entry->block);
    return plan_reads(entry);
}

struct read_request *block_cache_start(struct block_cache *cache, uint64_t now_ns, block_loaded *loaded,
                                       void *context) {
    struct block_wait *wait;
    while ((wait = cache->waiting.first)) {
        struct block_wait *next = wait->next;
        const uint8_t *decoded = block_cache_find(cache, wait->name);
        struct entry *entry = find(cache, wait->name);
        struct read_request *requests = entry ? NULL : load(cache, wait, now_ns);
        if (!entry && !requests)
            return NULL;
        cache->waiting.first = next;
        wait->next = NULL;
        if (decoded) {
            loaded(context, &(struct block_result){.decoded = decoded, .waiting = wait});
            continue;
        }
        entry = find(cache, wait->name);
        add_wait(&entry->waits, wait);
        if (requests)
            return requests;
    }
    return NULL;
}

void block_cache_read(struct block_cache *cache, const struct read_request *request, uint64_t now_ns) {
    struct entry *entry = request->chunk;
    entry->moved_ns = now_ns;
    if (request->result < 0 && !entry->code) {
        entry->code = request->result;
        entry->failed_offset = request->offset;
    }
    if (--entry->unread == 0)
        set_state(cache, entry, BLOCK_READ);
}

bool block_cache_waits(const struct block_cache *cache) {
    return cache->waiting.first != NULL;
}

bool block_cache_has_read(const struct block_cache *cache) {
    return !TAILQ_EMPTY(&cache->read);
}

void block_cache_decode(struct block_cache *cache, block_loaded *loaded, void *context) {
    struct entry *entry = TAILQ_FIRST(&cache->read);
    const struct block_work work = block_work(entry->block);
    struct block_result result = {.code = entry->code,
                                  .file = entry->file,
                                  .offset =
                                      entry->code ? entry->failed_offset : entry->block->stored[0].offset,
                                  .waiting = entry->waits.first};
    struct error error = {0};
    if (!result.code) {
        result.code = block_decode(&cache->decoder, entry->block, entry->work->memory + work.stored,
                                   entry->decoded->memory, entry->work->memory + work.scratch, &error);
        result.damaged = result.code != 0;
        result.sentence = result.damaged ? error.text : NULL;
    }
    arena_give(&cache->work, entry->work);
    cache->loading_bytes -= block_room(entry->block);
    if (result.code) {
        forget(cache, entry);
    } else {
        set_state(cache, entry, BLOCK_DECODED);
        result.decoded = entry->decoded->memory;
        cache->counts.decoded++;
        cache->counts.decoded_bytes += entry->block->decoded;
    }
    loaded(context, &result);
}

bool block_cache_oldest(const struct block_cache *cache, uint32_t *file, uint64_t *since_ns) {
    const struct entry *entry, *oldest = NULL;
    TAILQ_FOREACH(entry, &cache->reading, link)
        if (!oldest || entry->moved_ns < oldest->moved_ns)
            oldest = entry;
    if (!oldest)
        return false;
    *file = oldest->file;
    *since_ns = oldest->moved_ns;
    return true;
}

struct block_counts block_cache_counts(const struct block_cache *cache) {
    return cache->counts;
}
