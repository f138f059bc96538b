#include "daemon/loader/block/block_store.h"

#include "base/sizes.h"
#include "base/states.h"

#define MOST_BLOCKS  65536u
#define LEAST_BLOCKS 16u
#define MEAN_BYTES   4096u // where blocks are smaller than that, fewer are kept than memory has room for

static const struct state states[] = {
    [BLOCK_FREE] = {"free", STATE(BLOCK_READING)},
    [BLOCK_READING] = {"reading", STATE(BLOCK_READ)},
    [BLOCK_READ] = {"read", STATE(BLOCK_DECODED) | STATE(BLOCK_FREE)},
    [BLOCK_DECODED] = {"decoded", STATE(BLOCK_FREE)},
};
static const struct state_table table = STATE_TABLE("block", states);

static struct block_bucket *bucket_of(struct block_store *store, uint64_t number) {
    return &store->buckets[number * UINT64_C(0x9e3779b97f4a7c15) >> 32 & store->bucket_mask];
}

struct block_entry *block_store_find(struct block_store *store, uint64_t number) {
    struct block_entry *entry;
    LIST_FOREACH(entry, bucket_of(store, number), same)
        if (entry->number == number)
            return entry;
    return NULL;
}

static struct block_entry_list *list_of(struct block_store *store, enum block_state state) {
    switch (state) {
    case BLOCK_READING:
        return &store->reading;
    case BLOCK_READ:
        return &store->read;
    case BLOCK_DECODED:
        return &store->decoded;
    default:
        return &store->free;
    }
}

void block_store_set_state(struct block_store *store, struct block_entry *entry, enum block_state state) {
    TAILQ_REMOVE(list_of(store, entry->state), entry, link);
    entry->state = (enum block_state)state_next(&table, entry->state, state);
    TAILQ_INSERT_TAIL(list_of(store, state), entry, link);
}

// ---- Memory ------------------------------------------------------------------------------------------------

uint64_t block_store_forget(struct block_store *store, struct block_entry *entry) {
    if (store->share)
        block_share_withdraw(store->share, entry->number, entry->word);
    uint64_t room = arena_give(&store->arena, entry->decoded);
    LIST_REMOVE(entry, same);
    block_store_set_state(store, entry, BLOCK_FREE);
    return room;
}

void block_store_use(struct block_store *store, struct block_entry *entry) {
    TAILQ_REMOVE(&store->decoded, entry, link);
    TAILQ_INSERT_TAIL(&store->decoded, entry, link);
}

// The block that was used longest ago; what other loaders have used since it was last looked at counts as used now.
static struct block_entry *oldest_decoded(struct block_store *store) {
    const struct block_entry *last = TAILQ_LAST(&store->decoded, block_entry_list);
    struct block_entry *oldest;
    while (store->share && (oldest = TAILQ_FIRST(&store->decoded)) != last && oldest->word &&
           block_share_was_used(store->share, oldest->number))
        block_store_use(store, oldest);
    return TAILQ_FIRST(&store->decoded);
}

// Takes memory for what a block becomes, of blocks that were used longest ago if need be.
static struct arena_piece *take(struct block_store *store, uint64_t bytes) {
    struct arena_piece *piece = arena_take(&store->arena, bytes);
    struct block_entry *oldest;
    while (!piece && (oldest = oldest_decoded(store)))
        if (block_store_forget(store, oldest) >= bytes)
            piece = arena_take(&store->arena, bytes);
    return piece;
}

// Blocks that are being loaded leave half of the memory to those that are decoded, so that they do not push out what
// was loaded just before, and the next chunk needs.
static bool may_load(const struct block_store *store, const struct index_block *block) {
    return !store->loading_bytes || store->loading_bytes + block_room(block) <= store->arena.bytes / 2;
}

struct block_entry *block_store_make(struct block_store *store, const struct index_block *block) {
    if (!may_load(store, block))
        return NULL;
    if (TAILQ_EMPTY(&store->free) && !TAILQ_EMPTY(&store->decoded))
        block_store_forget(store, oldest_decoded(store));
    struct block_entry *entry = TAILQ_FIRST(&store->free);
    struct arena_piece *work = entry ? arena_take(&store->work, block_work(block).bytes) : NULL;
    struct arena_piece *decoded = work ? take(store, block->decoded) : NULL;
    if (!decoded) {
        if (work)
            arena_give(&store->work, work);
        return NULL;
    }
    entry->work = work;
    entry->decoded = decoded;
    return entry;
}

void block_store_unmake(struct block_store *store, struct block_entry *entry) {
    arena_give(&store->work, entry->work);
    arena_give(&store->arena, entry->decoded);
}

void block_store_begin(struct block_store *store, struct block_entry *entry, uint64_t number,
                       const struct index_block *block) {
    entry->number = number;
    entry->block = block;
    store->loading_bytes += block_room(block);
    LIST_INSERT_HEAD(bucket_of(store, number), entry, same);
    block_store_set_state(store, entry, BLOCK_READING);
}

void block_store_end_loading(struct block_store *store, struct block_entry *entry) {
    arena_give(&store->work, entry->work);
    store->loading_bytes -= block_room(entry->block);
}

// ---- Opening -----------------------------------------------------------------------------------------------

static int open_arenas(struct block_store *store, uint64_t work_bytes, uint64_t bytes, uint32_t most,
                       struct error *error) {
    int err = arena_open(&store->work, align_up(work_bytes, CACHE_LINE), most, error);
    if (err)
        return err;
    bytes = align_up(bytes, CACHE_LINE);
    return store->share ? arena_open_in(&store->arena, block_share_arena(store->share), bytes, most, error)
                        : arena_open(&store->arena, bytes, most, error);
}

int block_store_open(struct block_store *store, uint64_t work_bytes, uint64_t bytes,
                     const struct block_share *share, struct error *error) {
    const uint32_t most = (uint32_t)min_u64(max_u64(bytes / MEAN_BYTES, LEAST_BLOCKS), MOST_BLOCKS);
    const uint64_t buckets = power_of_two_up(most);
    *store = (struct block_store){.share = share, .bucket_mask = buckets - 1};
    TAILQ_INIT(&store->free);
    TAILQ_INIT(&store->reading);
    TAILQ_INIT(&store->read);
    TAILQ_INIT(&store->decoded);
    store->entries = calloc(most, sizeof *store->entries);
    store->buckets = calloc(buckets, sizeof *store->buckets);
    if (!store->entries || !store->buckets)
        return error_set(error, -ENOMEM, "no memory for blocks");
    for (uint32_t i = 0; i < most; i++)
        TAILQ_INSERT_TAIL(&store->free, &store->entries[i], link);
    return open_arenas(store, work_bytes, bytes, most, error);
}

void block_store_close(struct block_store *store) {
    arena_close(&store->arena);
    arena_close(&store->work);
    free(store->entries);
    free(store->buckets);
}
