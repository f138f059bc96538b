#include "daemon/transfer/device_ring.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/log.h"
#include "daemon/transfer/reporting.h"

#define MEASURED_BYTES (128ull << 20)
#define MEASURED_MOST  1024u // copies: the process does nothing else meanwhile
#define TELL_IMAGES_NS (250 * NS_PER_MS)

enum {
    POOL_FD_SOURCE,
    POOL_FD_RING,
    POOL_FD_EVENT,
    POOL_FD_MEMORY,
};

static int map_rings(struct device_ring *pool, const int *fds, struct error *error) {
    struct copies *copies = &pool->copies;
    int err = ring_map(&copies->source, fds[POOL_FD_SOURCE], RING_READ, error);
    if (!err)
        err = ring_map(&pool->ring, fds[POOL_FD_RING], RING_CONTROL, error);
    if (err)
        return err;
    const struct ring_header *ring = pool->ring.header, *source = copies->source.header;
    const bool same = ring->slot_bytes == source->slot_bytes && ring->ragged_count == source->ragged_count;
    if (!pool->ring.header->on_device || (!same && !images_wanted(&copies->source, &pool->ring)))
        return error_set(error, -EPROTO, "the pool's ring does not match the feed's");
    return 0;
}

static int get_memory(struct device_ring *pool, const struct transfer_request *request, int fd,
                      struct error *error) {
    const struct ring_header *header = pool->ring.header;
    struct error cause = {0};
    pool->slots = (struct gpu_slots){.first_bytes = ring_first_bytes(header), .count = header->slot_count};
    pool->memory_due = request->grown_slots;
    if (header->ragged_count)
        pool->slots.own = calloc(header->slot_count, sizeof *pool->slots.own);
    if (header->ragged_count && !pool->slots.own)
        return error_set(error, -ENOMEM, "out of memory");
    if (request->memory_bytes)
        return gpu_import(pool->gpu, fd, request->memory_bytes, true, &pool->slots.first, error);
    uint64_t bytes = gpu_round_up(pool->gpu, ring_pool_bytes(header));
    int err = gpu_create(pool->gpu, bytes, &pool->slots.first, &pool->memory_fd, &cause);
    if (err)
        error_set(error, err, "%s%s", cause.text,
                  err == -ENOMEM ? ": ask for smaller batches or a smaller prefetch, or lower device_pool"
                                 : "");
    return err;
}

int device_ring_begin(struct gpu *gpu, struct engine_queue *engine, const struct transfer_request *request,
                      int *fds, uint32_t fd_count, struct device_ring **made, struct error *error) {
    uint32_t wanted = request->memory_bytes ? POOL_FD_MEMORY + 1 : POOL_FD_MEMORY;
    struct device_ring *pool = calloc(1, sizeof *pool);
    int err = 0;
    if (!pool)
        err = error_set(error, -ENOMEM, "out of memory");
    else if (fd_count != wanted)
        err = error_set(error, -EPROTO, "%u descriptors came for a pool, not %u", fd_count, wanted);
    if (!err) {
        pool->id = request->pool;
        pool->gpu = gpu;
        pool->event_fd = fds[POOL_FD_EVENT];
        pool->memory_fd = -1;
        fds[POOL_FD_EVENT] = -1;
        err = map_rings(pool, fds, error);
    }
    if (!err)
        err = get_memory(pool, request, fds[POOL_FD_MEMORY], error);
    if (!err)
        err = copies_open(&pool->copies, gpu, &pool->ring, request->owner, &pool->slots, error);
    if (!err && images_wanted(&pool->copies.source, &pool->ring))
        err = images_open(&pool->copies.images, gpu, engine, &pool->copies.source, &pool->ring,
                          pool->slots.first.address, request->tolerant, error);
    if (!err) {
        pool->copies.pinned = &pool->registration;
        err = registration_begin(&pool->registration, gpu, &pool->copies.source, error);
    }
    for (uint32_t i = 0; i < fd_count; i++)
        close_fd(&fds[i]);
    if (err) {
        if (pool)
            device_ring_end(pool);
        return err;
    }
    *made = pool;
    return 0;
}

static int check_slot(const struct device_ring *pool, uint32_t slot, struct error *error) {
    return pool->slots.own && slot < pool->slots.count
               ? 0
               : error_set(error, -EPROTO, "slot %u of a pool cannot grow", slot);
}

int device_ring_give_memory(struct device_ring *pool, uint32_t slot, uint64_t bytes, int fd,
                            struct error *error) {
    AUTO_CLOSE int memory_fd = fd;
    struct gpu_memory memory;
    int err = check_slot(pool, slot, error);
    if (!err && !pool->memory_due)
        err = error_set(error, -EPROTO, "more slots of a pool have memory of their own than was announced");
    if (!err)
        err = gpu_import(pool->gpu, memory_fd, bytes, true, &memory, error);
    if (err)
        return err;
    gpu_slot_set_memory(pool->gpu, &pool->slots, slot, &memory);
    pool->memory_due--;
    return 0;
}

int device_ring_grow_slot(struct device_ring *pool, uint32_t slot, uint64_t bytes, uint64_t *got, int *fd,
                          struct error *error) {
    struct gpu_memory memory;
    int err = check_slot(pool, slot, error);
    if (!err)
        err = gpu_create(pool->gpu, gpu_round_up(pool->gpu, bytes), &memory, fd, error);
    if (err)
        return err;
    gpu_slot_set_memory(pool->gpu, &pool->slots, slot, &memory);
    *got = memory.bytes;
    return 0;
}

int device_ring_prepare(struct device_ring *pool, struct error *error) {
    uint64_t began = monotonic_ns();
    int left = registration_step(&pool->registration, error);
    pool->registering_ns += monotonic_ns() - began;
    pool->open = left == 0;
    return left;
}

void device_ring_tell_images(struct device_ring *pool, uint64_t now) {
    if (!pool->copies.images || now < pool->told_images_ns + TELL_IMAGES_NS)
        return;
    const struct images_counts counts = images_count(pool->copies.images), told = pool->told_images;
    const struct transfer_report more = {.engine_images = counts.by_engine - told.by_engine,
                                         .library_images = counts.by_library - told.by_library,
                                         .refused_images = counts.refused - told.refused};
    pool->told_images_ns = now;
    pool->told_images = counts;
    if (more.engine_images || more.library_images || more.refused_images)
        reporting_send(TRANSFER_IMAGES, pool->id, NULL, &more, -1);
}

// The supervisor hears of the last ones before it hears that the pool is closed.
static void tell_images(struct device_ring *pool) {
    if (!pool->copies.images)
        return;
    const struct images_counts counts = images_count(pool->copies.images);
    device_ring_tell_images(pool, UINT64_MAX);
    log_info("pool %" PRIu32 ": %" PRIu64 " images decoded by the engine, %" PRIu64 " by libjpeg, %" PRIu64
             " by loaders",
             pool->id, counts.by_engine, counts.by_library, counts.finished);
}

void device_ring_end(struct device_ring *pool) {
    tell_images(pool);
    // Unpinning memory or unmapping a pool under a copy would end the context.
    gpu_synchronize(pool->gpu, NULL);
    copies_close(&pool->copies);
    registration_end(&pool->registration);
    gpu_slots_free(pool->gpu, &pool->slots);
    ring_unmap(&pool->copies.source);
    ring_unmap(&pool->ring);
    close_fd(&pool->event_fd);
    close_fd(&pool->memory_fd);
    free(pool);
}

int device_ring_add_consumer(struct device_ring *pool, uint32_t consumer, int fd, struct error *error) {
    AUTO_CLOSE int words_fd = fd;
    struct stat status;
    if (consumer >= RING_MAX_CONSUMERS || pool->copies.consumers[consumer].words)
        return error_set(error, -EPROTO, "consumer %u of a pool has been added already", consumer);
    if (fstat(words_fd, &status) < 0 || (uint64_t)status.st_size < ring_slot_words_bytes(pool->ring.header))
        return error_set(error, -EPROTO, "the release words of a consumer are too short");
    void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, words_fd, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map a consumer's release words: %m");
    pool->copies.consumers[consumer] = (struct release_words){memory, (uint64_t)status.st_size};
    return 0;
}

void device_ring_remove_consumer(struct device_ring *pool, uint32_t consumer) {
    if (consumer >= RING_MAX_CONSUMERS || !pool->copies.consumers[consumer].words)
        return;
    munmap((void *)pool->copies.consumers[consumer].words, pool->copies.consumers[consumer].bytes);
    pool->copies.consumers[consumer] = (struct release_words){0};
}

int device_ring_measure_bus(struct device_ring *pool, uint64_t *bytes_per_s, struct error *error) {
    struct copies *copies = &pool->copies;
    const struct ring_header *source = copies->source.header, *ring = pool->ring.header;
    const uint64_t bytes = min_u64(ring_first_bytes(source), pool->slots.first_bytes);
    uint64_t copied = 0, began = 0;
    // The first copy is a warm-up and does not count.
    for (uint32_t i = 0; !i || (copied < MEASURED_BYTES && i <= MEASURED_MOST); i++) {
        int err = gpu_copy_in(pool->gpu, copies->streams[0],
                              pool->slots.first.address + i % ring->slot_count * pool->slots.first_bytes,
                              ring_slot_data(&copies->source, i % source->slot_count), bytes, error);
        if (!err && !i)
            err = gpu_synchronize(pool->gpu, error);
        if (err)
            return err;
        if (!i)
            began = monotonic_ns();
        else
            copied += bytes;
    }
    int err = gpu_synchronize(pool->gpu, error);
    uint64_t took = max_u64(monotonic_ns() - began, 1);
    *bytes_per_s = (uint64_t)((double)copied * 1e9 / (double)took);
    return err;
}

void device_ring_wake(const struct device_ring *pool) {
    const uint64_t one = 1;
    if (write(pool->event_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        log_warning("cannot wake the supervisor: %m");
}
