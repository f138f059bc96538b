#include "daemon/loader/chunk_apart.h"

#include "base/sizes.h"

// What a sample of an extent needs outside the slot. -EINVAL if its field does not match the ring's.
static int bytes_needed(const struct dataset_extent *extent, const struct ring *ring,
                        const struct stage_set *stages, uint64_t *bytes) {
    *bytes = 0;
    if (extent->field >= ring->header->field_count)
        return -EINVAL;
    uint64_t delivered = ring->header->fields[extent->field].sample_bytes;
    if (ring->header->fields[extent->field].ragged)
        return 0;
    const struct stage *stage = stages ? stages->of_field[extent->field] : NULL;
    if (!stage)
        return extent->bytes == delivered ? 0 : -EINVAL;
    int err = stage->ops->bytes_needed(stage, extent->bytes, bytes);
    bool has_room = *bytes ? *bytes >= extent->bytes : extent->bytes <= delivered;
    return err == 0 && !has_room ? -EINVAL : err;
}

struct dataset_extent chunk_apart_column_extent(const struct dataset_column *column) {
    return (struct dataset_extent){.field = column->field, .bytes = column->bytes};
}

int chunk_apart_extent(struct chunk_apart *apart, const struct dataset_extent *extent,
                       const struct chunk_part *part, uint64_t *bytes) {
    int err = bytes_needed(extent, apart->ring, part->stages, bytes);
    if (err)
        return err;
    if (apart->mixed && part->stages && part->stages->of_field[extent->field])
        *bytes = max_u64(*bytes, extent->bytes);
    apart->of_field[extent->field] = max_u64(apart->of_field[extent->field], *bytes);
    return 0;
}

int chunk_apart_column(struct chunk_apart *apart, const struct dataset_column *column,
                       const struct chunk_part *part, uint64_t *bytes) {
    const struct dataset_extent extent = chunk_apart_column_extent(column);
    int err = chunk_apart_extent(apart, &extent, part, bytes);
    const struct stage *stage = part->stages && !err ? part->stages->of_field[extent.field] : NULL;
    if (err || !column->varies)
        return err;
    if (!stage || !stage->ops->slow || !*bytes)
        return -EINVAL;
    apart->mean[extent.field] = max_u64(apart->mean[extent.field], max_u64(column->mean, 1));
    return 0;
}

// Of those whose samples have one size.
static uint64_t apart_field(const struct chunk_apart *apart, uint32_t field, uint32_t samples) {
    return apart->mean[field] ? 0 : align_up(apart->of_field[field] * samples, CACHE_LINE);
}

static uint64_t apart_total(const struct chunk_apart *apart, uint32_t samples) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++)
        total += apart_field(apart, i, samples);
    return total;
}

static uint64_t apart_usual(const struct chunk_apart *apart, uint32_t samples) {
    uint64_t total = apart_total(apart, samples);
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++)
        total += apart->mean[i] * samples;
    return total;
}

uint64_t chunk_apart_bytes(const struct chunk_part *parts, uint32_t part_count, const struct ring *ring) {
    struct chunk_apart apart = {.ring = ring, .mixed = part_count > 1};
    uint64_t bytes;
    for (uint32_t p = 0; p < part_count; p++) {
        const struct dataset_layout *layout = parts[p].layout;
        for (uint32_t i = 0; i < layout->stream_count && i < DATASET_MAX_STREAMS; i++)
            for (uint32_t k = 0; k < layout->streams[i].extent_count && k < RING_MAX_FIELDS; k++)
                chunk_apart_extent(&apart, &layout->streams[i].extents[k], &parts[p], &bytes);
        for (uint32_t i = 0; i < layout->column_count && i < RING_MAX_FIELDS; i++)
            chunk_apart_column(&apart, &layout->columns[i], &parts[p], &bytes);
    }
    return apart_usual(&apart, ring->header->chunk_samples);
}

bool chunk_apart_allocate(struct chunk_plan *plan, const struct chunk_apart *apart) {
    uint8_t *of_field[RING_MAX_FIELDS];
    uint64_t bytes = apart_total(apart, plan->capacity);
    uint8_t *at = plan->apart = bytes ? aligned_alloc(CACHE_LINE, bytes) : NULL;
    if (!at)
        return !bytes;
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++) {
        of_field[i] = at;
        at += apart_field(apart, i, plan->capacity);
    }
    for (uint32_t i = 0; i < plan->extent_count; i++) {
        struct chunk_extent *extent = &plan->extents[i];
        if (!extent->needed || apart->mean[extent->field])
            continue;
        extent->apart = of_field[extent->field];
        if (apart->mixed)
            extent->stride = apart->of_field[extent->field];
    }
    return true;
}
