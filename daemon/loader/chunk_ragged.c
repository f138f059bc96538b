#include "daemon/loader/chunk_ragged.h"

#include "base/dtype.h"
#include "daemon/dataset/column_size.h"

// Extents of one field share their places, because each sample of a claim is of one part.
bool chunk_ragged_init(struct chunk_plan *plan) {
    const uint32_t count = plan->ragged_count = plan->ring->header->ragged_count;
    if (!count)
        return true;
    plan->ragged_places = calloc((uint64_t)count * plan->capacity, sizeof *plan->ragged_places);
    plan->ragged_columns = calloc((uint64_t)count * plan->part_count, sizeof(struct dataset_column *));
    if (!plan->ragged_places || !plan->ragged_columns)
        return false;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        const struct chunk_segment *segment = &plan->segments[i];
        struct chunk_extent *extent = &plan->extents[segment->extents - plan->extents];
        if (!extent->ragged)
            continue;
        extent->places = plan->ragged_places + (uint64_t)(extent->ragged - 1) * plan->capacity;
        plan->ragged_columns[segment->part * (uint64_t)count + extent->ragged - 1] = segment->column;
    }
    return true;
}

void chunk_ragged_free(struct chunk_plan *plan) {
    free(plan->ragged_places);
    free(plan->ragged_columns);
}

static inline const struct dataset_column *ragged_column(const struct chunk_plan *plan, uint32_t part,
                                                         uint32_t ragged) {
    return plan->ragged_columns[part * (uint64_t)plan->ragged_count + ragged - 1];
}

// Of a sample of the claim, in the ragged field with that number.
static inline uint64_t sample_bytes(const struct chunk_plan *plan, uint32_t ragged, uint32_t i) {
    const uint32_t part = plan->part_of ? plan->part_of[i] : 0;
    return column_sample_bytes(ragged_column(plan, part, ragged), chunk_part_index(plan, part),
                               plan->samples[i] - plan->parts[part].first_sample);
}

// The entries of random samples are rarely in the cache: all are on their way before the first one is looked at.
static void prefetch(const struct chunk_plan *plan, uint32_t ragged) {
    for (uint32_t i = 0; i < plan->claim.count; i++) {
        const uint32_t part = plan->part_of ? plan->part_of[i] : 0;
        column_prefetch(ragged_column(plan, part, ragged), chunk_part_index(plan, part),
                        plan->samples[i] - plan->parts[part].first_sample);
    }
}

// Every loader that shares the ring can write to the places: none is used before the sizes have confirmed it.
static int place(struct chunk_plan *plan, uint32_t ragged, uint64_t *places) {
    const struct ring_claim *claim = &plan->claim;
    struct ring_values values;
    if (claim->chunk >= claim->chunk_count ||
        !ring_find_values(plan->ring, claim->slot, ragged, claim->chunk, claim->chunk + 1, &values))
        return -EPROTO;
    uint64_t at = values.begin;
    prefetch(plan, ragged);
    for (uint32_t i = 0; i < claim->count; i++) {
        uint64_t bytes = sample_bytes(plan, ragged, i);
        if (bytes > values.end - at)
            return -EPROTO;
        places[i] = at;
        at += bytes;
    }
    plan->ragged_bytes += at - values.begin;
    return at == values.end ? 0 : -EPROTO;
}

static int write_offsets(const struct chunk_plan *plan, const struct ring_field *field,
                         const uint64_t *places) {
    const struct ring_claim *claim = &plan->claim;
    int64_t *offsets = (int64_t *)(void *)(ring_slot_data(plan->ring, claim->slot) + field->slot_offset);
    uint64_t item = dtype_bytes(field->dtype);
    struct ring_values values;
    if (!ring_find_values(plan->ring, claim->slot, field->ragged, 0, claim->chunk_count, &values))
        return -EPROTO;
    for (uint32_t i = 0; i < claim->count; i++)
        offsets[claim->first_sample + i] = (int64_t)((places[i] - values.begin) / item);
    if (claim->chunk + 1 == claim->chunk_count)
        offsets[claim->first_sample + claim->count] = (int64_t)((values.end - values.begin) / item);
    return 0;
}

int chunk_ragged_place(struct chunk_plan *plan) {
    const struct ring_header *header = plan->ring->header;
    int err = 0;
    plan->ragged_bytes = 0;
    for (uint32_t i = 0; plan->ragged_count && i < plan->layout->field_count && !err; i++) {
        const struct ring_field *field = &header->fields[i];
        if (!field->ragged)
            continue;
        uint64_t *places = plan->ragged_places + (uint64_t)(field->ragged - 1) * plan->capacity;
        err = place(plan, field->ragged, places);
        if (!err)
            err = write_offsets(plan, field, places);
    }
    return err;
}
