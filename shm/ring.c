// Mapping and checking a ring. ring_make.c makes it; ring_loader.c and ring_supervisor.c have what happens in it.
#include "shm/ring.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/sizes.h"
#include "shm/ring_limits.h"

static int bad_ring(struct error *error, const char *what) {
    return error_set(error, -EPROTO, "the shared-memory object is not a ring that this build can use: %s",
                     what);
}

static bool part_fits(uint64_t offset, uint64_t count, uint64_t size, uint64_t limit) {
    uint64_t bytes = 0;
    return !__builtin_mul_overflow(count, size, &bytes) && offset <= limit && bytes <= limit - offset;
}

// Like part_fits, for a part that is aligned and begins at *end or later. Moves *end to the end of the part.
static bool part_follows(uint64_t *end, uint64_t offset, uint64_t count, uint64_t size, uint64_t alignment,
                         uint64_t limit) {
    if (offset < *end || offset % alignment || !part_fits(offset, count, size, limit))
        return false;
    *end = offset + count * size;
    return true;
}

static bool shape_fits(const struct ring_field *field) {
    uint64_t bytes = dtype_bytes(field->dtype);
    for (uint32_t i = 0; i < field->dimensions; i++)
        if (__builtin_mul_overflow(bytes, field->shape[i], &bytes))
            return false;
    return bytes == field->sample_bytes;
}

static int check_fields(const struct ring_header *header, struct error *error) {
    uint64_t end = 0;
    uint32_t ragged = 0;
    if (header->field_count < 1 || header->field_count > RING_MAX_FIELDS)
        return bad_ring(error, "field count");
    for (uint32_t i = 0; i < header->field_count; i++) {
        const struct ring_field *field = &header->fields[i];
        if (!dtype_bytes(field->dtype) || field->dimensions > RING_MAX_DIMS)
            return bad_ring(error, "field type");
        if (!shape_fits(field))
            return bad_ring(error, "field size");
        if (memchr(field->name, 0, sizeof field->name) == NULL)
            return bad_ring(error, "field name");
        if (field->ragged && (field->ragged != ++ragged || field->dimensions != 1 || field->shape[0]))
            return bad_ring(error, "ragged field");
        uint64_t count = field->ragged ? header->batch_size + 1ull : header->batch_size;
        uint64_t bytes = field->ragged ? sizeof(int64_t) : field->sample_bytes;
        if (!part_follows(&end, field->slot_offset, count, bytes, CACHE_LINE, header->slot_bytes))
            return bad_ring(error, "field outside its slot");
    }
    if (ragged != header->ragged_count || (!ragged && header->attempts_offset) ||
        (ragged &&
         (header->values_offset < end || header->values_offset > header->slot_allocated_bytes ||
          header->slot_allocated_bytes > header->slot_bytes || header->slot_allocated_bytes % RING_PAGE)))
        return bad_ring(error, "values outside their slot");
    return 0;
}

static int check_parts(const struct ring_header *header, uint64_t object_bytes, struct error *error) {
    uint64_t slots = header->slot_count, control = header->data_offset, end = RING_PAGE;
    uint64_t data_end = header->on_device ? MAX_RING : object_bytes; // on a device it is not in the object
    if (header->slot_bytes < 1 || header->slot_bytes % RING_PAGE)
        return bad_ring(error, "slot size");
    if (!part_follows(&end, header->slots_offset, slots, sizeof(struct ring_slot), CACHE_LINE, control) ||
        !part_follows(&end, header->chunks_offset, slots * header->chunks_per_slot, 8, CACHE_LINE, control) ||
        !part_follows(&end, header->skips_offset, slots * header->skip_words, 8, CACHE_LINE, control) ||
        !part_follows(&end, header->queue_offset, header->queue_entries, 4, CACHE_LINE, control) ||
        (header->ragged_count && !part_follows(&end, header->places_offset, slots * ring_slot_places(header),
                                               8, CACHE_LINE, control)) ||
        (header->attempts_offset &&
         !part_follows(&end, header->attempts_offset, slots * header->batch_size, 1, CACHE_LINE, control)) ||
        !part_follows(&end, header->data_offset, slots, header->slot_bytes, RING_PAGE, data_end))
        return bad_ring(error, "a part lies outside its place");
    return 0;
}

static int check_header(const struct ring_header *header, uint64_t object_bytes, struct error *error) {
    if (atomic_load_explicit(&header->magic, memory_order_relaxed) != RING_MAGIC)
        return bad_ring(error, "magic number");
    if (header->version != RING_VERSION || header->header_bytes != sizeof(struct ring_control))
        return bad_ring(error, "version");
    if (header->total_bytes != object_bytes || header->data_offset > object_bytes || header->on_device > 1 ||
        (header->on_device && header->data_offset != object_bytes))
        return bad_ring(error, "size");
    uint64_t slots = header->slot_count;
    if (slots < 1 || slots > RING_MAX_SLOTS || header->chunks_per_slot < 1 ||
        header->chunks_per_slot > RING_MAX_CHUNKS)
        return bad_ring(error, "slot count");
    if (header->batch_size < 1 || header->batch_size > CHUNK_MAX_SAMPLES || header->chunk_samples < 1 ||
        divide_up(header->batch_size, header->chunk_samples) != header->chunks_per_slot)
        return bad_ring(error, "batch size");
    if (header->queue_entries < slots || (header->queue_entries & (header->queue_entries - 1)))
        return bad_ring(error, "queue size");
    if (header->skip_words < divide_up(header->batch_size, 64))
        return bad_ring(error, "skip bitmap");
    if (header->ragged_count > RING_MAX_FIELDS)
        return bad_ring(error, "ragged fields");
    int err = check_parts(header, object_bytes, error);
    return err ? err : check_fields(header, error);
}

// What has been checked must not change: a loader can write to the header, and its offsets say where everything lies.
// So it is read once, into a page of this process's own, and that is checked and used.
static int copy_header(struct ring *ring) {
    void *copy = mmap(NULL, RING_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return -errno;
    // Pairs with the release in fill_header: what follows was written before the magic.
    (void)atomic_load_explicit(&ring->control->header.magic, memory_order_acquire);
    memcpy(copy, &ring->control->header, sizeof ring->control->header);
    ring->header = copy;
    return mprotect(copy, RING_PAGE, PROT_READ) < 0 ? -errno : 0;
}

static bool is_of(const struct ring_memory *memory, const struct stat *status) {
    return memory && memory->memory && memory->device == status->st_dev && memory->inode == status->st_ino;
}

// The map of the object as it is now, made of the one that there is, if any.
static void *map_bytes(int fd, uint64_t bytes, int protection, const struct stat *status,
                       struct ring_memory *prepared) {
    if (!is_of(prepared, status))
        return mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
    void *memory = mremap(prepared->memory, prepared->bytes, bytes, MREMAP_MAYMOVE);
    if (memory != MAP_FAILED)
        prepared->memory = NULL;
    return memory;
}

static int map_object(struct ring *ring, int fd, enum ring_access access, struct ring_memory *prepared,
                      struct error *error) {
    struct stat status;
    if (fstat(fd, &status) < 0)
        return error_set(error, -errno, "cannot look at the ring's descriptor: %m");
    uint64_t object_bytes = (uint64_t)status.st_size;
    if (object_bytes < RING_PAGE)
        return bad_ring(error, "it is too small");
    int protection = access == RING_READ ? PROT_READ : PROT_READ | PROT_WRITE;
    void *memory = map_bytes(fd, object_bytes, protection, &status, prepared);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map a ring of %" PRIu64 " bytes: %m", object_bytes);
    ring->control = memory;
    ring->mapped_bytes = object_bytes;
    return 0;
}

static int map_ring(struct ring *ring, int fd, enum ring_access access, struct ring_memory *prepared,
                    struct error *error) {
    *ring = (struct ring){0};
    int err = map_object(ring, fd, access, prepared, error);
    if (err)
        return err;
    err = copy_header(ring);
    err = err ? error_set(error, err, "cannot keep the header of a ring: %s", strerror(-err))
              : check_header(ring->header, ring->mapped_bytes, error);
    if (err) {
        ring_unmap(ring);
        return err;
    }
    uint64_t control = ring->header->data_offset;
    if (ring->header->on_device)
        return 0;
    if (access == RING_CONTROL) {
        munmap((uint8_t *)ring->control + control, ring->mapped_bytes - control);
        ring->mapped_bytes = control;
    } else {
        ring->data = (uint8_t *)ring->control + control;
    }
    return 0;
}

int ring_map(struct ring *ring, int fd, enum ring_access access, struct error *error) {
    return map_ring(ring, fd, access, NULL, error);
}

void ring_unmap(struct ring *ring) {
    if (ring->control)
        munmap(ring->control, ring->mapped_bytes);
    if (ring->header)
        munmap((void *)ring->header, RING_PAGE);
    free(ring->dispatched);
    free(ring->places);
    free(ring->attempts);
    *ring = (struct ring){0};
}

// ---- In advance --------------------------------------------------------------------------------------------

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

// Addresses for most rings, so that the map need not move when the object becomes one.
#define RESERVED_BYTES (64ull << 20)

// With another size, it is a feed's already, and not all of its bytes need be allocated: those that are not are to stay
// so. If the supervisor gives it to a feed meanwhile, what lies beyond its end is an error here, not a signal. Kernels
// before 5.14 cannot do this; then pages are mapped when something is read into them.
void ring_memory_map(struct ring_memory *memory, int fd, uint64_t bytes) {
    struct stat status;
    *memory = (struct ring_memory){0};
    if (fstat(fd, &status) < 0 || bytes > RESERVED_BYTES)
        return;
    void *map = mmap(NULL, RESERVED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return;
    if ((uint64_t)status.st_size == bytes)
        madvise(map, bytes, MADV_POPULATE_WRITE);
    *memory = (struct ring_memory){
        .memory = map, .bytes = RESERVED_BYTES, .device = status.st_dev, .inode = status.st_ino};
}

void ring_memory_unmap(struct ring_memory *memory) {
    if (memory->memory)
        munmap(memory->memory, memory->bytes);
    *memory = (struct ring_memory){0};
}

int ring_map_prepared(struct ring *ring, int fd, struct ring_memory *memory, struct error *error) {
    int err = map_ring(ring, fd, RING_FILL, memory, error);
    ring_memory_unmap(memory);
    return err;
}
