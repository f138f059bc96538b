#include "client/lib/mapped_pool.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/error.h"
#include "client/feed.h"

static int map_words(struct mapped_pool *pool, const struct ring *ring, int fd, struct error *error) {
    struct stat status;
    if (fstat(fd, &status) < 0 || (uint64_t)status.st_size < ring_slot_words_bytes(ring->header))
        return error_set(error, -EPROTO, "feedd gave release words for fewer slots than the pool has");
    void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map the release words: %m");
    int err =
        gpu_host_register(pool->gpu, memory, (uint64_t)status.st_size, false, &pool->words_address, error);
    if (err) {
        munmap(memory, (size_t)status.st_size);
        return err;
    }
    pool->words = memory;
    pool->words_bytes = (uint64_t)status.st_size;
    return 0;
}

int mapped_pool_open(struct mapped_pool *pool, struct gpu *gpu, const struct ring *ring, int memory_fd,
                     uint64_t memory_bytes, int words_fd, struct error *error) {
    *pool = (struct mapped_pool){.gpu = gpu};
    const struct ring_header *header = ring->header;
    if (!header->on_device || memory_bytes < ring_pool_bytes(header))
        return error_set(error, -EPROTO, "feedd gave a pool that is smaller than its ring says");
    pool->slots = (struct gpu_slots){.first_bytes = ring_first_bytes(header), .count = header->slot_count};
    if (header->ragged_count)
        pool->slots.own = calloc(header->slot_count, sizeof *pool->slots.own);
    int err = header->ragged_count && !pool->slots.own ? error_set(error, -ENOMEM, "out of memory") : 0;
    if (!err)
        err = gpu_import(gpu, memory_fd, memory_bytes, false, &pool->slots.first, error);
    if (!err)
        err = map_words(pool, ring, words_fd, error);
    if (err)
        mapped_pool_close(pool);
    return err;
}

int mapped_pool_grow_slot(struct mapped_pool *pool, uint32_t slot, uint64_t bytes, int memory_fd,
                          uint64_t last, struct error *error) {
    struct gpu_memory memory;
    if (!pool->slots.own || slot >= pool->slots.count || bytes <= gpu_slot_bytes(&pool->slots, slot))
        return error_set(error, -EPROTO, "feedd gave memory to a slot that cannot have it");
    // The copy of the batch that is there now has waited for this word, so with a daemon that works as it should, this
    // consumer's reads of what is unmapped here are over. Acquire: they came before.
    if (atomic_load_explicit(&pool->words[slot], memory_order_acquire) < last)
        return error_set(error, -EPROTO,
                         "feedd gave memory to a slot that this consumer's stream still reads");
    int err = gpu_import(pool->gpu, memory_fd, bytes, false, &memory, error);
    if (!err)
        gpu_slot_set_memory(pool->gpu, &pool->slots, slot, &memory);
    return err;
}

void mapped_pool_close(struct mapped_pool *pool) {
    if (!pool->gpu)
        return;
    // If the context is lost, this fails, and nothing is queued any more.
    if (pool->slots.first.bytes || pool->words)
        gpu_synchronize(pool->gpu, NULL);
    if (pool->words) {
        gpu_host_unregister(pool->gpu, (void *)pool->words);
        munmap((void *)pool->words, pool->words_bytes);
    }
    gpu_slots_free(pool->gpu, &pool->slots);
    *pool = (struct mapped_pool){0};
}

int mapped_pool_wait(const struct mapped_pool *pool, const struct ring *ring, uint32_t slot, uint64_t fill,
                     gpu_stream stream, struct error *error) {
    // A batch is granted when its copy is done, so this never waits for long. It is there to order the copy before what
    // follows on the GPU.
    return gpu_wait_word(pool->gpu, stream, pool->slots.first.address + ring_pool_word(ring->header, slot),
                         fill, error);
}

int mapped_pool_release(const struct mapped_pool *pool, uint32_t slot, uint64_t fill, gpu_stream stream,
                        struct error *error) {
    if (stream == FEED_NO_STREAM) {
        // Release: this process's reads come before it; pairs with the acquire in copies.c.
        atomic_store_explicit(&pool->words[slot], fill, memory_order_release);
        return 0;
    }
    struct gpu_word word = {pool->words_address + ring_slot_word(slot), fill};
    if (stream == FEED_EVERY_STREAM)
        return gpu_write_word_last(pool->gpu, &word, error);
    return gpu_write_words(pool->gpu, stream, &word, 1, error);
}
