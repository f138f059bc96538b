#include "shm/ragged_repair.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "shm/holes.h"

static int64_t load(const int64_t *offset) {
    return __atomic_load_n(offset, __ATOMIC_RELAXED);
}

// Other loaders can write to offsets and places at any time: each is read once and checked.
static int close_values(struct ring *ring, const struct ring_claim *claim, const struct ring_field *field,
                        uint32_t count) {
    const _Atomic uint64_t *skips = ring_skips(ring, claim->slot);
    uint8_t *data = ring_slot_data(ring, claim->slot);
    int64_t *offsets = (int64_t *)(void *)(data + field->slot_offset);
    struct ring_values values;
    if (!ring_find_values(ring, claim->slot, field->ragged, 0, claim->chunk_count, &values))
        return -EPROTO;
    const uint64_t item = dtype_bytes(field->dtype), most = (values.end - values.begin) / item;
    uint64_t from = 0, to = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t next = (uint64_t)load(&offsets[i + 1]);
        if (next < from || next > most)
            return -EPROTO;
        if (!hole_at(skips, i)) {
            memmove(data + values.begin + to * item, data + values.begin + from * item, (next - from) * item);
            offsets[kept++] = (int64_t)to;
            to += next - from;
        }
        from = next;
    }
    offsets[kept] = (int64_t)to;
    return 0;
}

static void close_array(struct ring *ring, uint32_t slot, const struct ring_field *field, uint32_t count) {
    const _Atomic uint64_t *skips = ring_skips(ring, slot);
    uint8_t *array = ring_slot_data(ring, slot) + field->slot_offset;
    uint64_t bytes = field->sample_bytes, kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (hole_at(skips, i))
            continue;
        if (kept != i)
            memcpy(array + kept * bytes, array + i * bytes, bytes);
        kept++;
    }
}

int ragged_repair(struct ring *ring, const struct ring_claim *claim, uint32_t count) {
    const struct ring_header *header = ring->header;
    int err = 0;
    for (uint32_t i = 0; i < header->field_count && !err; i++) {
        const struct ring_field *field = &header->fields[i];
        if (field->ragged)
            err = close_values(ring, claim, field, count);
        else
            close_array(ring, claim->slot, field, count);
    }
    return err;
}
