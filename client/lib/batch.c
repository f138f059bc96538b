#include "client/lib/batch.h"

#include "base/dtype.h"
#include "base/error.h"
#include "client/lib/leases.h"
#include "gpu/gpu_cuda_ranges.h"

// The members of a slot's record that a batch is made of.
struct record {
    uint64_t epoch, index, first_position, consumed;
    uint32_t count, skipped, last_of_epoch, chunk_count;
};

// Each is read once: what is checked is what is used, whatever is written there meanwhile.
static struct record copy_record(const struct ring_slot *slot) {
    return (struct record){
        .epoch = __atomic_load_n(&slot->epoch, __ATOMIC_RELAXED),
        .index = __atomic_load_n(&slot->index, __ATOMIC_RELAXED),
        .first_position = __atomic_load_n(&slot->first_position, __ATOMIC_RELAXED),
        .consumed = __atomic_load_n(&slot->consumed, __ATOMIC_RELAXED),
        .count = __atomic_load_n(&slot->count, __ATOMIC_RELAXED),
        .skipped = __atomic_load_n(&slot->skipped, __ATOMIC_RELAXED),
        .chunk_count = __atomic_load_n(&slot->chunk_count, __ATOMIC_RELAXED),
        .last_of_epoch = __atomic_load_n(&slot->last_of_epoch, __ATOMIC_RELAXED),
    };
}

static const uint8_t *slot_data(const struct attachment *attachment, uint32_t slot) {
    const struct ring *ring = &attachment->ring;
    if (!ring->header->on_device)
        return ring_slot_data(ring, slot);
    return (const uint8_t *)(uintptr_t)gpu_slot_address(&attachment->pool.slots, slot);
}

static void fill_ragged(const struct ring_field *field, const struct ring_values *values, const uint8_t *data,
                        struct feed_array *array) {
    array->offsets = (const int64_t *)(const void *)(data + field->slot_offset);
    array->data = data + values->begin;
    array->shape[0] = (values->end - values->begin) / dtype_bytes(field->dtype);
    array->bytes = array->shape[0] * dtype_bytes(field->dtype);
}

static void fill_arrays(const struct attachment *attachment, const struct feed_array *fields,
                        const struct ring_values *values, struct feed_batch *batch) {
    const struct ring_header *header = attachment->ring.header;
    const uint8_t *data = slot_data(attachment, batch->slot);
    batch->field_count = header->field_count;
    for (uint32_t i = 0; i < batch->field_count; i++) {
        const struct ring_field *field = &header->fields[i];
        struct feed_array *array = &batch->field[i];
        *array = fields[i];
        if (field->ragged) {
            fill_ragged(field, &values[field->ragged - 1], data, array);
            continue;
        }
        const struct finished_field *finished = finisher_field(&attachment->finisher, i);
        array->shape[0] = batch->count;
        array->data = data + field->slot_offset;
        array->bytes = batch->count * field->sample_bytes;
        if (!finished)
            continue;
        array->data =
            (const uint8_t *)(uintptr_t)finisher_data(&attachment->finisher, finished, (uint32_t)batch->slot);
        array->bytes = batch->count * finished->sample_bytes;
    }
}

// Where the values of ragged fields lie. False: not in the slot, or not where arrays may begin.
static bool find_values(const struct attachment *attachment, uint32_t slot, uint32_t chunks,
                        struct ring_values *values) {
    const struct ring_header *header = attachment->ring.header;
    const uint64_t room =
        header->on_device ? gpu_slot_bytes(&attachment->pool.slots, slot) : header->slot_bytes;
    uint64_t begin[RING_MAX_FIELDS], end[RING_MAX_FIELDS];
    if (!header->ragged_count)
        return true;
    if (chunks > header->chunks_per_slot)
        return false;
    leases_places(attachment, slot, 0, begin);
    leases_places(attachment, slot, chunks + 1, end);
    for (uint32_t i = 0; i < header->ragged_count; i++) {
        values[i] = (struct ring_values){begin[i], end[i]};
        if (begin[i] % RING_VALUES_ALIGN || !ring_values_fit(header, &values[i]) || end[i] > room)
            return false;
    }
    return true;
}

int batch_finish(struct attachment *attachment, struct error *error) {
    for (uint32_t i = 0; attachment->finisher.count && i < attachment->queue_count; i++) {
        uint32_t slot = attachment->queue[(attachment->queue_first + i) % attachment->prefetch];
        struct lease *lease = &attachment->leases[slot];
        struct ring_slot read;
        if (lease->finishing)
            continue;
        struct record record = copy_record(leases_record(attachment, slot, &read));
        uint32_t samples = record.skipped <= record.count ? record.count - record.skipped : 0;
        int err = finisher_queue(&attachment->finisher, &attachment->pool, &attachment->ring, slot,
                                 lease->fill, samples, error);
        if (err)
            return err;
        lease->finishing = true;
    }
    return 0;
}

int batch_take(struct attachment *attachment, const struct feed_array *fields, struct feed_batch *batch,
               struct error *error) {
    uint32_t slot = attachment->queue[attachment->queue_first];
    uint32_t batch_size = attachment->ring.header->batch_size;
    struct lease *lease = &attachment->leases[slot];
    struct ring_slot read;
    struct record record = copy_record(leases_record(attachment, slot, &read));
    struct ring_values values[RING_MAX_FIELDS];
    bool found = find_values(attachment, slot, record.chunk_count, values);
    // After the copy, so that all of the copy is of our batch: the resume token is made of it.
    if (!leases_still_ours(attachment, slot))
        return 0;
    if (record.count > batch_size || record.skipped > record.count)
        return error_set(error, -EPROTO,
                         "slot %u of the ring holds %u samples, %u of them skipped, of %u possible", slot,
                         record.count, record.skipped, batch_size);
    if (!found)
        return error_set(error, -EPROTO, "slot %u of the ring has values that are not in it", slot);

    batch->count = record.count - record.skipped;
    batch->skipped = record.skipped;
    batch->epoch = record.epoch;
    batch->index = record.index;
    batch->first_position = record.first_position;
    batch->last_of_epoch = record.last_of_epoch != 0;
    batch->slot = slot;
    batch->sequence = lease->sequence;
    batch->generation = attachment->generation;
    batch->fill = lease->fill;
    fill_arrays(attachment, fields, values, batch);

    attachment->epoch = batch->last_of_epoch ? record.epoch + 1 : record.epoch;
    attachment->consumed = batch->last_of_epoch ? 0 : record.consumed;
    attachment->queue_first = (attachment->queue_first + 1) % attachment->prefetch;
    attachment->queue_count--;
    attachment->held++;
    lease->state = LEASE_HELD;
    lease->range = gpu_range_start("feedd: lease");
    return 1;
}
