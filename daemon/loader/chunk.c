#include "daemon/loader/chunk.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/sizes.h"
#include "daemon/loader/chunk_apart.h"
#include "daemon/loader/chunk_blocks.h"
#include "daemon/loader/chunk_build.h"
#include "daemon/loader/chunk_members.h"
#include "daemon/loader/chunk_ragged.h"
#include "daemon/loader/chunk_varying.h"
#include "shm/ring_loader.h"

// An upper bound of what chunk_build.c makes of one sample of a segment.
static uint64_t most_requests(const struct chunk_segment *segment, bool direct) {
    uint64_t parts =
        segment->bytes <= READER_MAX_BYTES ? 1 : segment->bytes / (READER_MAX_BYTES - CHUNK_CUT) + 1;
    if (segment->column && segment->column->kind == COLUMN_WINDOWS)
        parts += segment->column->stretches;
    return direct ? parts * 3 : parts; // a direct read may be cut into head, middle and tail
}

static uint64_t most_pieces(const struct chunk_segment *segment, bool direct) {
    return 2 * segment->extent_count + most_requests(segment, direct);
}

// ... of a whole claim. The samples of a ragged field share the room of the slot, so few of them are large.
static uint64_t most_of_claim(const struct chunk_plan *plan, const struct chunk_segment *segment,
                              bool direct) {
    if (!segment->extents || !segment->extents->ragged)
        return plan->capacity * most_requests(segment, direct);
    uint64_t parts = plan->ring->header->slot_bytes / (READER_MAX_BYTES - CHUNK_CUT) + plan->capacity;
    return direct ? parts * 3 : parts;
}

// ---- Opening -----------------------------------------------------------------------------------------------

static void add_extent(struct chunk_plan *plan, const struct chunk_part *part,
                       const struct dataset_extent *extent, uint64_t gap, uint64_t needed) {
    const struct ring_field *field = &plan->ring->header->fields[extent->field];
    plan->extents[plan->extent_count++] =
        (struct chunk_extent){.slot_offset = field->slot_offset,
                              .delivered = field->sample_bytes,
                              .bytes = extent->bytes,
                              .gap = gap,
                              .needed = needed,
                              .stride = extent->bytes,
                              .field = extent->field,
                              .ragged = field->ragged,
                              .stage = part->stages ? part->stages->of_field[extent->field] : NULL};
}

// One segment per run of extents with small gaps. Extents of no bytes are left out.
static int add_stream(struct chunk_plan *plan, uint32_t number, const struct dataset_stream *stream,
                      struct chunk_apart *apart, struct error *error) {
    const struct chunk_part *part = &plan->parts[number];
    const uint32_t most = (number + 1) * RING_MAX_FIELDS;
    struct chunk_segment *segment = NULL;
    uint64_t end = 0, needed;
    for (uint32_t i = 0; i < stream->extent_count; i++) {
        const struct dataset_extent *extent = &stream->extents[i];
        if (extent->bytes == 0)
            continue;
        if (extent->field >= plan->layout->field_count || plan->extent_count == most ||
            chunk_apart_extent(apart, extent, part, &needed) < 0 || (segment && extent->offset < end))
            return error_set(error, -EINVAL, "field %u of the dataset does not match the ring's",
                             extent->field);
        if (!segment || extent->offset - end > READER_SCRATCH_BYTES) {
            segment = &plan->segments[plan->segment_count++];
            *segment = (struct chunk_segment){.part = number,
                                              .stream = stream,
                                              .offset = extent->offset,
                                              .extents = &plan->extents[plan->extent_count]};
            end = extent->offset;
        }
        add_extent(plan, part, extent, extent->offset - end, needed);
        segment->extent_count++;
        end = extent->offset + extent->bytes;
        segment->bytes = end - segment->offset;
    }
    uint64_t window = 1 + READER_SCRATCH_BYTES / max_u64(stream->record_bytes, 1);
    plan->merge_window = max_u64(plan->merge_window, window);
    return 0;
}

static int add_column(struct chunk_plan *plan, uint32_t number, const struct dataset_column *column,
                      struct chunk_apart *apart, struct error *error) {
    const struct chunk_part *part = &plan->parts[number];
    const struct dataset_extent extent = chunk_apart_column_extent(column);
    uint64_t needed;
    if (extent.field >= plan->layout->field_count || plan->extent_count == (number + 1) * RING_MAX_FIELDS ||
        chunk_apart_column(apart, column, part, &needed) < 0)
        return error_set(error, -EINVAL, "field %u of the dataset does not match the ring's", extent.field);
    plan->segments[plan->segment_count++] =
        (struct chunk_segment){.part = number,
                               .stream = part->layout->streams,
                               .column = column,
                               .bytes = column->bytes,
                               .extents = &plan->extents[plan->extent_count],
                               .extent_count = 1};
    add_extent(plan, part, &extent, 0, needed);
    plan->extents[plan->extent_count - 1].sizes = column->varies ? column : NULL;
    return 0;
}

static int add_part(struct chunk_plan *plan, uint32_t number, struct chunk_apart *apart,
                    struct error *error) {
    const struct dataset_layout *layout = plan->parts[number].layout;
    if (layout->field_count != plan->ring->header->field_count || layout->stream_count > DATASET_MAX_STREAMS)
        return error_set(error, -EINVAL, "the ring has %u fields, the dataset %u",
                         plan->ring->header->field_count, layout->field_count);
    int err = 0;
    for (uint32_t i = 0; i < layout->stream_count && !err; i++)
        err = add_stream(plan, number, &layout->streams[i], apart, error);
    for (uint32_t i = 0; i < layout->column_count && i < RING_MAX_FIELDS && !err; i++)
        err = add_column(plan, number, &layout->columns[i], apart, error);
    return err;
}

static bool any_direct(const struct dataset_layout *layout) {
    for (uint32_t i = 0; i < layout->file_count; i++)
        if (layout->files[i].direct_memory)
            return true;
    return false;
}

static int no_memory(struct chunk_plan *plan, struct error *error) {
    uint32_t capacity = plan->capacity;
    chunk_plan_free(plan);
    return error_set(error, -ENOMEM, "no memory to plan the reads of %u samples", capacity);
}

static int allocate(struct chunk_plan *plan, const struct chunk_apart *apart, struct error *error) {
    uint64_t requests = 0, pieces = 0;
    bool direct = any_direct(plan->layout);
    AUTO_FREE uint64_t *most = calloc(2 * (uint64_t)plan->part_count, sizeof *most);
    for (uint32_t i = 0; most && i < plan->segment_count; i++) {
        const struct chunk_segment *segment = &plan->segments[i];
        const uint64_t of_claim = most_of_claim(plan, segment, direct);
        requests = max_u64(requests, most[2 * segment->part] += of_claim);
        pieces = max_u64(pieces, most[2 * segment->part + 1] +=
                                 of_claim + 2ull * segment->extent_count * plan->capacity);
    }
    // Pages that are never touched cost no memory, so these bounds can be generous.
    plan->samples = calloc(plan->capacity, sizeof *plan->samples);
    plan->members = calloc(plan->capacity, sizeof *plan->members);
    plan->failed = calloc(divide_up(plan->capacity, 64), sizeof *plan->failed);
    plan->requests = calloc(max_u64(requests, plan->capacity), sizeof *plan->requests);
    plan->pieces = calloc(max_u64(pieces, 1), sizeof *plan->pieces);
    if (plan->part_count > 1)
        plan->part_of = calloc(max_u64(plan->capacity, 1), sizeof *plan->part_of);
    bool set_apart = chunk_apart_allocate(plan, apart) && chunk_ragged_init(plan) &&
                     chunk_varying_init(plan) && chunk_blocks_init(plan);
    if (!most || !plan->samples || !plan->members || !plan->failed || !plan->requests || !plan->pieces ||
        !set_apart || (plan->part_count > 1 && !plan->part_of))
        return no_memory(plan, error);
    plan->members_sorted = true; // not yet the identity
    return 0;
}

int chunk_plan_init_mix(struct chunk_plan *plan, const struct dataset_layout *layout, const struct ring *ring,
                        const struct chunk_part *parts, uint32_t part_count, uint64_t stored_samples,
                        struct error *error) {
    struct chunk_apart apart = {.ring = ring, .mixed = part_count > 1};
    *plan = (struct chunk_plan){.layout = layout,
                                .ring = ring,
                                .part_count = part_count,
                                .stored_samples = stored_samples,
                                .capacity = ring->header->chunk_samples};
    plan->chunk = plan;
    plan->parts = calloc(part_count, sizeof *plan->parts);
    plan->segments = calloc(part_count * (uint64_t)RING_MAX_FIELDS, sizeof *plan->segments);
    plan->extents = calloc(part_count * (uint64_t)RING_MAX_FIELDS, sizeof *plan->extents);
    if (!plan->parts || !plan->segments || !plan->extents)
        return no_memory(plan, error);
    memcpy(plan->parts, parts, part_count * sizeof *parts);
    for (uint32_t i = 0; i < part_count; i++) {
        int err = add_part(plan, i, &apart, error);
        if (err) {
            chunk_plan_free(plan);
            return err;
        }
    }
    return allocate(plan, &apart, error);
}

int chunk_plan_init(struct chunk_plan *plan, const struct dataset_layout *layout, const struct ring *ring,
                    const struct stage_set *stages, struct error *error) {
    const struct chunk_part whole = {.layout = layout, .stages = stages};
    return chunk_plan_init_mix(plan, layout, ring, &whole, 1, dataset_stored_samples(layout), error);
}

static void free_splits(struct chunk_plan *plan) {
    while (plan->splits) {
        struct chunk_split *split = plan->splits;
        plan->splits = split->next;
        free(split);
    }
}

void chunk_plan_free(struct chunk_plan *plan) {
    free_splits(plan);
    free(plan->parts);
    free(plan->segments);
    chunk_ragged_free(plan);
    chunk_varying_free(plan);
    chunk_blocks_free(plan);
    free(plan->extents);
    free(plan->part_of);
    free(plan->samples);
    free(plan->members);
    free(plan->failed);
    free(plan->requests);
    free(plan->pieces);
    free(plan->apart);
    *plan = (struct chunk_plan){0};
}

uint8_t *chunk_delivered(const struct chunk_plan *plan, const struct chunk_extent *extent) {
    return ring_slot_data(plan->ring, plan->claim.slot) + extent->slot_offset +
           plan->claim.first_sample * extent->delivered;
}

static void place_extents(struct chunk_plan *plan) {
    for (uint32_t i = 0; i < plan->extent_count; i++) {
        struct chunk_extent *extent = &plan->extents[i];
        extent->start = extent->apart;
        if (extent->ragged)
            extent->start = ring_slot_data(plan->ring, plan->claim.slot);
        else if (!extent->apart && !extent->places)
            extent->start =
                chunk_delivered(plan, extent) + plan->claim.count * (extent->delivered - extent->bytes);
    }
}

int chunk_plan_fill(struct chunk_plan *plan, const struct ring_claim *claim, uint32_t flags) {
    if (claim->count > plan->capacity)
        return -EINVAL;
    for (uint32_t i = 0; i < claim->count; i++)
        if (plan->samples[i] >= plan->stored_samples)
            return -EINVAL;
    free_splits(plan);
    plan->claim = *claim;
    memset(plan->failed, 0, divide_up(claim->count, 64) * sizeof *plan->failed);
    chunk_arrange_members(plan, claim->count, (flags & CHUNK_SORT) && (flags & CHUNK_MERGE));
    place_extents(plan);
    int err = chunk_ragged_place(plan);
    if (!err)
        err = chunk_varying_place(plan);
    if (err)
        return err;
    plan->need_count = plan->need_sample_count = 0;
    struct chunk_builder builder = {.plan = plan, .request = plan->requests, .piece = plan->pieces};
    for (uint32_t i = 0; i < plan->segment_count; i++)
        if (plan->parts[plan->segments[i].part].member_count)
            chunk_build_segment(&builder, i, flags & CHUNK_MERGE);
    plan->request_count = (uint32_t)(builder.request - plan->requests);
    plan->piece_count = (uint32_t)(builder.piece - plan->pieces);
    return 0;
}

int chunk_plan_split(struct chunk_plan *plan, const struct read_request *request,
                     struct read_request **list) {
    *list = NULL;
    if (request->sample_count < 2)
        return 0;
    uint64_t requests_bytes = request->sample_count * sizeof(struct read_request);
    uint64_t pieces = request->sample_count * most_pieces(&plan->segments[request->segment], false);
    struct chunk_split *split = calloc(1, sizeof *split + requests_bytes + pieces * sizeof(struct iovec));
    if (!split)
        return -ENOMEM;
    split->next = plan->splits;
    plan->splits = split;

    struct chunk_builder builder = {.plan = plan,
                                    .request = split->requests,
                                    .piece = (struct iovec *)(split->requests + request->sample_count)};
    for (uint32_t i = 0; i < request->sample_count; i++)
        chunk_build_single(&builder, request->segment, request->first_sample + i);
    for (struct read_request *made = builder.request; made-- > split->requests;) {
        made->next = *list;
        *list = made;
    }
    return (int)request->sample_count;
}

bool chunk_plan_mark_failed(struct chunk_plan *plan, uint32_t sample) {
    if (chunk_plan_failed(plan, sample))
        return false;
    plan->failed[sample / 64] |= UINT64_C(1) << (sample % 64);
    return true;
}

bool chunk_is_incomplete(const struct chunk_plan *plan, uint32_t member) {
    const struct chunk_part *part = &plan->parts[chunk_find_part(plan, plan->samples[member])];
    return part->layout->incomplete_offset &&
           dataset_is_incomplete(part->layout, part->index ? part->index : plan->index,
                                 plan->samples[member] - part->first_sample);
}
