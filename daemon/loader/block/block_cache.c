#include "daemon/loader/block/block_cache.h"

#include "base/sizes.h"
#include "base/time.h"
#include "block/block_decode.h"
#include "daemon/loader/block/block_store.h"

// How long another loader may take to read and decode a block before this one does it too: more than it should need, so
// that it has died, or waits for storage that is slow.
#define PATIENCE_NS          (100 * NS_PER_MS)
#define PATIENCE_NS_PER_BYTE 10u

struct block_cache {
    struct block_store store;
    struct block_decoder decoder;
    struct block_waits waiting; // for memory
    struct block_waits others;  // for other loaders
    struct block_counts counts;
};

_Static_assert(sizeof(struct read_request) + sizeof(struct iovec) <= BLOCK_READ_ROOM, "reads have room");
#if BLOCK_READ_BYTES > READER_MAX_BYTES
#error "readers do not take as much"
#endif

static void add_wait(struct block_waits *waits, struct block_wait *wait) {
    wait->next = NULL;
    *(waits->first ? waits->end : &waits->first) = wait;
    waits->end = &wait->next;
}

int block_cache_open(struct block_cache **out, uint64_t work_bytes, uint64_t bytes,
                     const struct block_share *share, struct error *error) {
    struct block_cache *cache = *out = calloc(1, sizeof *cache);
    if (!cache)
        return error_set(error, -ENOMEM, "no memory for blocks");
    int err = block_decoder_open(&cache->decoder, error);
    if (!err)
        err = block_store_open(&cache->store, work_bytes, bytes, share, error);
    if (!err)
        return 0;
    block_cache_close(cache);
    *out = NULL;
    return err;
}

void block_cache_close(struct block_cache *cache) {
    if (!cache)
        return;
    block_store_close(&cache->store);
    block_decoder_close(&cache->decoder);
    free(cache);
}

static enum block_share_state look(struct block_cache *cache, uint64_t number,
                                   const struct index_block *block, struct block_found *found) {
    struct block_entry *entry = block_store_find(&cache->store, number);
    enum block_share_state state = BLOCK_SHARE_EMPTY;
    *found = (struct block_found){.number = number, .is_shared = cache->store.share && !entry};
    if (entry && entry->state != BLOCK_DECODED)
        return BLOCK_SHARE_CLAIMED;
    if (entry) {
        block_store_use(&cache->store, entry);
        found->decoded = entry->decoded->memory;
        return BLOCK_SHARE_DECODED;
    }
    if (found->is_shared)
        state = block_share_look(cache->store.share, number, block->decoded, &found->seen);
    found->decoded = found->seen.decoded;
    return state;
}

bool block_cache_find(struct block_cache *cache, uint64_t number, const struct index_block *block,
                      struct block_found *found) {
    return look(cache, number, block, found) == BLOCK_SHARE_DECODED;
}

bool block_cache_held(const struct block_cache *cache, const struct block_found *found) {
    return !found->is_shared || block_share_held(cache->store.share, found->number, &found->seen);
}

void block_cache_want(struct block_cache *cache, struct block_wait *wait) {
    struct block_entry *entry = block_store_find(&cache->store, wait->number);
    wait->overdue = false;
    add_wait(entry && entry->state != BLOCK_DECODED ? &entry->waits : &cache->waiting, wait);
}

// The requests and their pieces lie at the front of the entry's work piece.
static struct read_request *plan_reads(struct block_entry *entry) {
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

// NULL: there is no memory now, or another loader has just claimed the block (`*lost`).
static struct read_request *load(struct block_cache *cache, struct block_wait *wait,
                                 const struct block_found *found, uint64_t now_ns, bool *lost) {
    struct block_entry *entry = block_store_make(&cache->store, wait->block);
    if (!entry)
        return NULL;
    entry->word = cache->store.share ? block_share_claim(cache->store.share, wait->number, &found->seen) : 0;
    *lost = cache->store.share && !entry->word;
    if (*lost) {
        block_store_unmake(&cache->store, entry);
        return NULL;
    }
    entry->file = wait->file;
    entry->waits = (struct block_waits){0};
    entry->code = 0;
    entry->moved_ns = now_ns;
    block_store_begin(&cache->store, entry, wait->number, wait->block);
    return plan_reads(entry);
}

// Whoever waits for other loaders waits here again when that has come to something, or takes too long.
static void review_others(struct block_cache *cache, uint64_t now_ns) {
    struct block_wait *wait = cache->others.first, *next;
    struct block_found found;
    cache->others.first = NULL;
    for (; wait; wait = next) {
        next = wait->next;
        bool same = look(cache, wait->number, wait->block, &found) == BLOCK_SHARE_CLAIMED &&
                    found.seen.word == wait->claim;
        wait->overdue = now_ns > wait->since_ns + PATIENCE_NS + PATIENCE_NS_PER_BYTE * wait->block->decoded;
        add_wait(same && !wait->overdue ? &cache->others : &cache->waiting, wait);
    }
}

struct read_request *block_cache_start(struct block_cache *cache, uint64_t now_ns, block_loaded *loaded,
                                       void *context) {
    struct block_wait *wait;
    review_others(cache, now_ns);
    while ((wait = cache->waiting.first)) {
        struct block_result result = {.waiting = wait};
        struct read_request *requests = NULL;
        enum block_share_state state = look(cache, wait->number, wait->block, &result.found);
        const bool is_others = state == BLOCK_SHARE_CLAIMED && result.found.is_shared;
        if (state == BLOCK_SHARE_EMPTY ||
            (is_others && wait->overdue && wait->claim == result.found.seen.word)) {
            bool lost = false;
            requests = load(cache, wait, &result.found, now_ns, &lost);
            if (lost)
                continue; // to who has it now
            if (!requests)
                return NULL;
        }
        cache->waiting.first = wait->next;
        wait->next = NULL;
        if (state == BLOCK_SHARE_DECODED) {
            loaded(context, &result);
        } else if (is_others && !requests) {
            wait->claim = result.found.seen.word;
            wait->since_ns = now_ns;
            add_wait(&cache->others, wait);
        } else {
            add_wait(&block_store_find(&cache->store, wait->number)->waits, wait);
        }
        if (requests)
            return requests;
    }
    return NULL;
}

void block_cache_read(struct block_cache *cache, const struct read_request *request, uint64_t now_ns) {
    struct block_entry *entry = request->chunk;
    entry->moved_ns = now_ns;
    if (request->result < 0 && !entry->code) {
        entry->code = request->result;
        entry->failed_offset = request->offset;
    }
    if (--entry->unread == 0)
        block_store_set_state(&cache->store, entry, BLOCK_READ);
}

bool block_cache_waits(const struct block_cache *cache) {
    return cache->waiting.first != NULL;
}

bool block_cache_has_read(const struct block_cache *cache) {
    return !TAILQ_EMPTY(&cache->store.read);
}

bool block_cache_waits_for_others(const struct block_cache *cache) {
    return cache->others.first != NULL;
}

bool block_cache_is_at_rest(const struct block_cache *cache) {
    return !cache->waiting.first && TAILQ_EMPTY(&cache->store.reading) && TAILQ_EMPTY(&cache->store.read);
}

bool block_cache_decode(struct block_cache *cache, bool patient, block_loaded *loaded, void *context) {
    struct block_entry *entry = TAILQ_FIRST(&cache->store.read);
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
        if (patient && error_is_lack(result.code))
            return false;
        result.damaged = result.code && !error_is_lack(result.code);
        result.sentence = result.code ? error.text : NULL;
    }
    block_store_end_loading(&cache->store, entry);
    if (result.code) {
        block_store_forget(&cache->store, entry);
    } else {
        block_store_set_state(&cache->store, entry, BLOCK_DECODED);
        if (cache->store.share)
            entry->word =
                block_share_publish(cache->store.share, entry->number, entry->word, entry->decoded->memory);
        result.found = (struct block_found){.decoded = entry->decoded->memory, .number = entry->number};
        cache->counts.decoded++;
        cache->counts.decoded_bytes += entry->block->decoded;
    }
    loaded(context, &result);
    return true;
}

bool block_cache_oldest(const struct block_cache *cache, uint32_t *file, uint64_t *since_ns) {
    const struct block_entry *entry, *oldest = NULL;
    TAILQ_FOREACH(entry, &cache->store.reading, link)
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
