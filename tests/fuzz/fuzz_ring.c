// The header of a ring, and the records of its slots, as a client sees them: whatever is written there, what ring_map
// takes leads to no address outside the map.
//
// Input: a byte for the kind of ring and how it is mapped, the size of the object, the number of places of a valid ring
// that are changed, and those places. If the first byte says so, the header's total_bytes is put right afterwards.
#include "base/error.h"
#include "order/partition.h"
#include "shm/holes.h"
#include "shm/ring.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/ring_image.h"

#define SLOTS_LOOKED_AT 64u

enum {
    ON_DEVICE = 1,
    PUT_RIGHT = 2,
    OTHER_SIZE = 4,
    WRITABLE = 8
};

static void check_inside(const struct ring *ring, const void *at, uint64_t bytes) {
    uint64_t offset = (uint64_t)((const uint8_t *)at - (const uint8_t *)ring->control);
    FUZZ_CHECK((const uint8_t *)at >= (const uint8_t *)ring->control && offset <= ring->mapped_bytes &&
               bytes <= ring->mapped_bytes - offset);
}

static void check_fields(const struct ring *ring, uint32_t slot) {
    const struct ring_header *header = ring->header;
    for (uint32_t i = 0; i < header->field_count; i++) {
        const struct ring_field *field = &header->fields[i];
        uint64_t bytes = header->batch_size * field->sample_bytes;
        FUZZ_CHECK(field->slot_offset + bytes <= header->slot_bytes && field->dimensions <= RING_MAX_DIMS);
        if (ring->data)
            check_inside(ring, ring_slot_data(ring, slot) + field->slot_offset, bytes);
    }
}

// As libfeed does: what the record says counts only if it can be.
static void check_slot(const struct ring *ring, uint32_t slot) {
    const struct ring_slot *record = ring_slot(ring, slot);
    const _Atomic uint64_t *skips = ring_skips(ring, slot);
    check_inside(ring, record, sizeof *record);
    check_inside(ring, skips, 8 * divide_up(ring->header->batch_size, 64));
    FUZZ_CHECK(ring->header->skip_words >=
               divide_up(ring->header->batch_size, 64)); // or slots would share some
    check_fields(ring, slot);
    uint32_t count = record->count, skipped = record->skipped;
    if (count > ring->header->batch_size || skipped > count)
        return;
    for (uint32_t i = 0; i < count - skipped && i < 8; i++) {
        uint32_t source = hole_source(skips, count - skipped, count, i);
        FUZZ_CHECK(source == UINT32_MAX || source < count);
    }
}

static void read_ring(const struct ring *ring) {
    const struct ring_header *header = ring->header;
    struct partition partition = {.samples = header->samples,
                                  .batch_size = header->batch_size,
                                  .world_size = header->world_size,
                                  .drop_last = header->seed & 1};
    struct batch_place place;
    for (uint32_t slot = 0; slot < header->slot_count && slot < SLOTS_LOOKED_AT; slot++)
        check_slot(ring, slot);
    check_slot(ring, header->slot_count - 1);
    FUZZ_CHECK(memchr(header->fields[0].name, 0, RING_FIELD_NAME));
    FUZZ_CHECK(ring_pool_bytes(header) >= header->slot_bytes);
    if (partition_locate(&partition, 0, header->fingerprint, &place) == 0)
        FUZZ_CHECK(place.first_position + place.count <= partition.samples);
}

static void map(int fd, enum ring_access access) {
    struct ring ring;
    struct error error = {0};
    if (ring_map(&ring, fd, access, &error) < 0) {
        FUZZ_CHECK(!ring.header && *error.text);
        return;
    }
    if (access == RING_READ)
        read_ring(&ring);
    ring_unmap(&ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct ring_image images[2];
    static int fd = -1;
    static uint8_t object[1u << 16];
    struct fuzz_input input = {data, size};
    if (fd < 0) {
        fd = fuzz_memory_file();
        ring_image_make(&images[0], false);
        ring_image_make(&images[1], true);
    }
    uint8_t kind = fuzz_byte(&input);
    const struct ring_image *image = &images[kind & ON_DEVICE];
    uint64_t bytes = image->plan.total_bytes, control = image->plan.data_offset;
    if (kind & OTHER_SIZE)
        bytes = min_u64(fuzz_number(&input), 1ull << 40);
    FUZZ_CHECK(control <= sizeof object);
    memcpy(object, image->bytes, control);
    fuzz_patch(&input, object, control, ring_pages, COUNT_OF(ring_pages), fuzz_byte(&input));
    if (kind & PUT_RIGHT)
        ((struct ring_header *)(void *)object)->total_bytes = bytes;
    fuzz_write(fd, object, control);
    FUZZ_CHECK(ftruncate(fd, (off_t)bytes) == 0);
    map(fd, RING_READ);
    if (kind & WRITABLE) {
        map(fd, RING_FILL);
        map(fd, RING_CONTROL);
    }
    return 0;
}
