// The header of a ring, and the records of its slots, as a client sees them: whatever is written there, what ring_map
// takes leads to no address outside the map. And a ring whose words change after it was mapped, under the supervisor
// and its loaders: whatever changes, they come to an end and stay inside.
//
// Input: a byte for the kind of ring and how it is mapped, the size of the object, the number of places of a valid ring
// that are changed, and those places. If the first byte says so, the header's total_bytes is put right afterwards. Then
// what the supervisor, a loader, and one that has gone wrong do.
#include "base/error.h"
#include "order/partition.h"
#include "shm/holes.h"
#include "shm/ring.h"
#include "shm/ring_loader.h"
#include "shm/ring_supervisor.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/ring_image.h"

#define SLOTS_LOOKED_AT 64u

enum {
    ON_DEVICE = 1,
    PUT_RIGHT = 2,
    OTHER_SIZE = 4,
    WRITABLE = 8,
    RAGGED = 16
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
        uint64_t bytes = field->ragged ? sizeof(int64_t) * (header->batch_size + 1ull)
                                       : header->batch_size * field->sample_bytes;
        FUZZ_CHECK(field->slot_offset + bytes <= header->slot_bytes && field->dimensions <= RING_MAX_DIMS);
        if (ring->data)
            check_inside(ring, ring_slot_data(ring, slot) + field->slot_offset, bytes);
    }
}

// What is taken for the place of values lies behind the fields, in the slot.
static void check_values(const struct ring *ring, uint32_t slot, uint32_t first, uint32_t end) {
    const struct ring_header *header = ring->header;
    struct ring_values values;
    FUZZ_CHECK(header->slot_allocated_bytes <= header->slot_bytes || !header->ragged_count);
    for (uint32_t i = 1; i <= header->ragged_count; i++) {
        check_inside(ring, ring_places(ring, slot), 8 * ring_slot_places(header));
        if (!ring_find_values(ring, slot, i, first, end, &values))
            continue;
        FUZZ_CHECK(first <= end && end <= header->chunks_per_slot);
        FUZZ_CHECK(values.begin >= header->values_offset && values.begin <= values.end);
        if (ring->data)
            check_inside(ring, ring_slot_data(ring, slot) + values.begin, values.end - values.begin);
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
    if (ring->header->attempts_offset)
        check_inside(ring, ring_attempts(ring, slot), ring->header->batch_size);
    check_values(ring, slot, 0, record->chunk_count);
    check_values(ring, slot, 1, 0);
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
    FUZZ_CHECK(ring_pool_bytes(header) >= ring_first_bytes(header));
    if (partition_locate(&partition, 0, header->fingerprint, &place) == 0)
        FUZZ_CHECK(place.first_position + place.count <= partition.samples);
}

// ---- Words that change -------------------------------------------------------------------------------------

static void spoil(const struct ring *ring, struct fuzz_input *input) {
    uint64_t at = fuzz_number(input) % (ring->header->data_offset - 8), word = fuzz_number(input);
    memcpy((uint8_t *)ring->control + at, &word, fuzz_byte(input) & 1 ? 8 : 1);
}

static void supervise(struct ring *ring, struct fuzz_input *input, uint64_t used[RING_MAX_SLOTS / 64]) {
    uint32_t slot = (uint32_t)(fuzz_byte(input) % min_u64(ring->header->slot_count, 64));
    uint64_t bit = 1ull << slot, count = fuzz_number(input) % (ring->header->batch_size + 1ull);
    struct batch_place place = {.first_position = count, .count = count};
    struct ring_error failure;
    if (!(used[0] & bit) && ring->header->ragged_count)
        memset(ring_own_places(ring, slot), (int)slot, 8 * ring_slot_places(ring->header));
    if (!(used[0] & bit) && ring_dispatch(ring, slot, &(struct ring_batch){.run = 1}, &place))
        used[0] |= bit;
    if (!(used[0] & bit))
        return;
    ring_recover(ring, fuzz_byte(input) % 4);
    if (ring_slot_poll(ring, slot) == RING_SLOT_FAILED && ring_take_failure(ring, &failure))
        FUZZ_CHECK(failure.code < 0 && failure.code > -4096);
    FUZZ_CHECK(ring_dispatched(ring, slot)->count == count || ring_dispatched(ring, slot)->run);
    FUZZ_CHECK(ring_dispatched(ring, slot)->skipped <= ring_dispatched(ring, slot)->count);
    ring_supervisor_arm(ring);
    (void)ring_unclaimed(ring);
    if (ring_slot_busy(ring, slot))
        return;
    ring_slot_free(ring, slot);
    used[0] &= ~bit;
}

static void load(struct ring *ring, struct fuzz_input *input) {
    struct ring_claim claim;
    const struct ring_header *header = ring->header;
    if (!ring_claim(ring, 1 + fuzz_byte(input) % 3, &claim))
        return;
    FUZZ_CHECK(claim.slot < header->slot_count && claim.chunk_count <= header->chunks_per_slot);
    FUZZ_CHECK((uint64_t)claim.first_sample + claim.count <= header->batch_size);
    if (claim.chunk != RING_REPAIR_CHUNK)
        check_values(ring, claim.slot, claim.chunk, claim.chunk + 1);
    if (claim.chunk == RING_REPAIR_CHUNK && ring->data)
        ring_repair(ring, &claim);
    if (fuzz_byte(input) & 1)
        (void)!ring_chunk_failed(ring, &claim, -5, 1, 2, 3);
    else
        (void)!ring_chunk_done(ring, &claim, fuzz_byte(input) % 4);
}

static void play(struct ring *ring, struct fuzz_input *input) {
    struct error error = {0};
    uint64_t used[RING_MAX_SLOTS / 64] = {0};
    FUZZ_CHECK(ring_supervise(ring, &error) == 0);
    for (uint32_t step = 0; input->left && step < 64; step++)
        switch (fuzz_byte(input) % 4) {
        case 0:
            supervise(ring, input, used);
            break;
        case 1:
            load(ring, input);
            break;
        default:
            spoil(ring, input);
        }
}

static void map(int fd, enum ring_access access, struct fuzz_input *input) {
    struct ring ring;
    struct error error = {0};
    if (ring_map(&ring, fd, access, &error) < 0) {
        FUZZ_CHECK(!ring.header && *error.text);
        return;
    }
    if (access == RING_READ)
        read_ring(&ring);
    else
        play(&ring, input);
    ring_unmap(&ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct ring_image images[4];
    static int fd = -1;
    static uint8_t object[1u << 16];
    struct fuzz_input input = {data, size};
    if (fd < 0) {
        fd = fuzz_memory_file();
        for (int i = 0; i < 4; i++)
            ring_image_make(&images[i], i & 1, i & 2);
    }
    uint8_t kind = fuzz_byte(&input);
    const struct ring_image *image = &images[(kind & ON_DEVICE) + (kind & RAGGED ? 2 : 0)];
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
    map(fd, RING_READ, &input);
    if (kind & WRITABLE) {
        map(fd, RING_FILL, &input);
        map(fd, RING_CONTROL, &input);
    }
    return 0;
}
