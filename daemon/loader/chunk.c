#include "daemon/loader/chunk.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/sizes.h"
#include "daemon/loader/chunk_build.h"
#include "shm/ring_loader.h"

// A sample that finds a neighbour saves a read, at least 500 ns; sorting costs about 50 ns per sample.
#define SORT_PAYS_ONE_IN 8

struct sort_key {
    uint64_t sample;
    uint32_t member;
};

// An upper bound of what chunk_build.c makes of one sample of a segment.
static uint64_t most_requests(const struct chunk_segment *segment, bool direct) {
    uint64_t parts =
        segment->bytes <= READER_MAX_BYTES ? 1 : segment->bytes / (READER_MAX_BYTES - CHUNK_CUT) + 1;
    return direct ? parts * 3 : parts; // a direct read may be cut into head, middle and tail
}

static uint64_t most_pieces(const struct chunk_segment *segment, bool direct) {
    return 2 * segment->extent_count + most_requests(segment, direct);
}

// What a sample of an extent needs outside the slot. -EINVAL if its field does not match the ring's.
static int bytes_needed(const struct dataset_extent *extent, const struct ring *ring,
                        const struct stage_set *stages, uint64_t *bytes) {
    *bytes = 0;
    if (extent->field >= ring->header->field_count)
        return -EINVAL;
    uint64_t delivered = ring->header->fields[extent->field].sample_bytes;
    const struct stage *stage = stages ? stages->of_field[extent->field] : NULL;
    if (!stage)
        return extent->bytes == delivered ? 0 : -EINVAL;
    int err = stage->ops->bytes_needed(stage, extent->bytes, bytes);
    bool has_room = *bytes ? *bytes >= extent->bytes : extent->bytes <= delivered;
    return err == 0 && !has_room ? -EINVAL : err;
}

// A column as an extent of records that hold nothing else.
static struct dataset_extent column_extent(const struct dataset_column *column) {
    return (struct dataset_extent){.field = column->field, .bytes = column->bytes};
}

uint64_t chunk_apart_bytes(const struct dataset_layout *layout, const struct ring *ring,
                           const struct stage_set *stages) {
    uint64_t total = 0, bytes;
    for (uint32_t i = 0; i < layout->stream_count && i < DATASET_MAX_STREAMS; i++)
        for (uint32_t k = 0; k < layout->streams[i].extent_count && k < RING_MAX_FIELDS; k++)
            if (bytes_needed(&layout->streams[i].extents[k], ring, stages, &bytes) == 0)
                total += align_up(bytes * ring->header->chunk_samples, CACHE_LINE);
    for (uint32_t i = 0; i < layout->column_count && i < RING_MAX_FIELDS; i++) {
        const struct dataset_extent extent = column_extent(&layout->columns[i]);
        if (bytes_needed(&extent, ring, stages, &bytes) == 0)
            total += align_up(bytes * ring->header->chunk_samples, CACHE_LINE);
    }
    return total;
}

static void add_extent(struct chunk_plan *plan, const struct dataset_extent *extent, uint64_t gap,
                       uint64_t needed) {
    const struct ring_field *field = &plan->ring->header->fields[extent->field];
    plan->extents[plan->extent_count++] =
        (struct chunk_extent){.slot_offset = field->slot_offset,
                              .delivered = field->sample_bytes,
                              .bytes = extent->bytes,
                              .gap = gap,
                              .needed = needed,
                              .stage = plan->stages ? plan->stages->of_field[extent->field] : NULL};
}

// One segment per run of extents with small gaps. Extents of no bytes are left out.
static int add_stream(struct chunk_plan *plan, const struct dataset_stream *stream, struct error *error) {
    struct chunk_segment *segment = NULL;
    uint64_t end = 0, needed;
    for (uint32_t i = 0; i < stream->extent_count; i++) {
        const struct dataset_extent *extent = &stream->extents[i];
        if (extent->bytes == 0)
            continue;
        if (extent->field >= plan->layout->field_count || plan->extent_count == RING_MAX_FIELDS ||
            bytes_needed(extent, plan->ring, plan->stages, &needed) < 0 || (segment && extent->offset < end))
            return error_set(error, -EINVAL, "field %u of the dataset does not match the ring's",
                             extent->field);
        if (!segment || extent->offset - end > READER_SCRATCH_BYTES) {
            segment = &plan->segments[plan->segment_count++];
            *segment = (struct chunk_segment){
                .stream = stream, .offset = extent->offset, .extents = &plan->extents[plan->extent_count]};
            end = extent->offset;
        }
        add_extent(plan, extent, extent->offset - end, needed);
        segment->extent_count++;
        end = extent->offset + extent->bytes;
        segment->bytes = end - segment->offset;
    }
    uint64_t window = 1 + READER_SCRATCH_BYTES / max_u64(stream->record_bytes, 1);
    plan->merge_window = max_u64(plan->merge_window, window);
    return 0;
}

static int add_column(struct chunk_plan *plan, const struct dataset_column *column, struct error *error) {
    const struct dataset_extent extent = column_extent(column);
    uint64_t needed;
    if (extent.field >= plan->layout->field_count || plan->extent_count == RING_MAX_FIELDS ||
        bytes_needed(&extent, plan->ring, plan->stages, &needed) < 0)
        return error_set(error, -EINVAL, "field %u of the dataset does not match the ring's", extent.field);
    plan->segments[plan->segment_count++] =
        (struct chunk_segment){.stream = plan->layout->streams,
                               .column = column,
                               .bytes = column->bytes,
                               .extents = &plan->extents[plan->extent_count],
                               .extent_count = 1};
    add_extent(plan, &extent, 0, needed);
    return 0;
}

// This memory is not touched before it is used, either.
static bool set_memory_apart(struct chunk_plan *plan) {
    uint64_t bytes = chunk_apart_bytes(plan->layout, plan->ring, plan->stages);
    uint8_t *at = bytes ? aligned_alloc(CACHE_LINE, bytes) : NULL;
    plan->apart = at;
    for (uint32_t i = 0; i < plan->extent_count && at; i++) {
        struct chunk_extent *extent = &plan->extents[i];
        if (!extent->needed)
            continue;
        extent->apart = at;
        at += align_up(extent->needed * plan->capacity, CACHE_LINE);
    }
    return at || !bytes;
}

static bool any_direct(const struct dataset_layout *layout) {
    for (uint32_t i = 0; i < layout->file_count; i++)
        if (layout->files[i].direct_memory)
            return true;
    return false;
}

int chunk_plan_init(struct chunk_plan *plan, const struct dataset_layout *layout, const struct ring *ring,
                    const struct stage_set *stages, struct error *error) {
    *plan = (struct chunk_plan){
        .layout = layout, .ring = ring, .stages = stages, .capacity = ring->header->chunk_samples};
    plan->chunk = plan;
    if (layout->field_count != ring->header->field_count || layout->stream_count > DATASET_MAX_STREAMS)
        return error_set(error, -EINVAL, "the ring has %u fields, the dataset %u", ring->header->field_count,
                         layout->field_count);
    for (uint32_t i = 0; i < layout->stream_count; i++) {
        int err = add_stream(plan, &layout->streams[i], error);
        if (err < 0)
            return err;
    }
    for (uint32_t i = 0; i < layout->column_count && i < RING_MAX_FIELDS; i++) {
        int err = add_column(plan, &layout->columns[i], error);
        if (err < 0)
            return err;
    }
    uint64_t requests = 0, pieces = 0;
    bool direct = any_direct(layout);
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        requests += most_requests(&plan->segments[i], direct);
        pieces += most_pieces(&plan->segments[i], direct);
    }
    // Pages that are never touched cost no memory, so these bounds can be generous.
    plan->samples = calloc(plan->capacity, sizeof *plan->samples);
    plan->members = calloc(plan->capacity, sizeof *plan->members);
    plan->failed = calloc(divide_up(plan->capacity, 64), sizeof *plan->failed);
    plan->requests = calloc(plan->capacity, max_u64(requests, 1) * sizeof *plan->requests);
    plan->pieces = calloc(plan->capacity, max_u64(pieces, 1) * sizeof *plan->pieces);
    bool set_apart = set_memory_apart(plan);
    if (!plan->samples || !plan->members || !plan->failed || !plan->requests || !plan->pieces || !set_apart) {
        chunk_plan_free(plan);
        return error_set(error, -ENOMEM, "no memory to plan the reads of %u samples", plan->capacity);
    }
    plan->members_sorted = true; // not yet the identity
    return 0;
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
    free(plan->samples);
    free(plan->members);
    free(plan->failed);
    free(plan->requests);
    free(plan->pieces);
    free(plan->apart);
    *plan = (struct chunk_plan){0};
}

static int compare_keys(const void *left, const void *right) {
    uint64_t a = ((const struct sort_key *)left)->sample, b = ((const struct sort_key *)right)->sample;
    return a < b ? -1 : a > b;
}

// Of `count` random samples out of N, each can expect count * merge_window / N others close after it.
static bool sort_pays(const struct chunk_plan *plan, uint32_t count) {
    bool ascending = true;
    for (uint32_t i = 1; i < count && ascending; i++)
        ascending = plan->samples[i - 1] < plan->samples[i];
    uint64_t near;
    if (ascending || __builtin_mul_overflow(plan->merge_window, (uint64_t)count * SORT_PAYS_ONE_IN, &near))
        return !ascending;
    return near >= dataset_stored_samples(plan->layout);
}

// The order of samples is the order of (file, offset) in every stream.
static void sort_members(struct chunk_plan *plan, uint32_t count) {
    struct sort_key *keys = (void *)plan->requests; // free until the requests are built, and larger
    for (uint32_t i = 0; i < count; i++)
        keys[i] = (struct sort_key){plan->samples[i], i};
    qsort(keys, count, sizeof *keys, compare_keys);
    for (uint32_t i = 0; i < count; i++)
        plan->members[i] = keys[i].member;
    plan->members_sorted = true;
}

static void restore_members(struct chunk_plan *plan) {
    for (uint32_t i = 0; i < plan->capacity; i++)
        plan->members[i] = i;
    plan->members_sorted = false;
}

uint8_t *chunk_delivered(const struct chunk_plan *plan, const struct chunk_extent *extent) {
    return ring_slot_data(plan->ring, plan->claim.slot) + extent->slot_offset +
           plan->claim.first_sample * extent->delivered;
}

static void place_extents(struct chunk_plan *plan) {
    for (uint32_t i = 0; i < plan->extent_count; i++) {
        struct chunk_extent *extent = &plan->extents[i];
        extent->start = extent->apart;
        if (!extent->apart)
            extent->start =
                chunk_delivered(plan, extent) + plan->claim.count * (extent->delivered - extent->bytes);
    }
}

int chunk_plan_fill(struct chunk_plan *plan, const struct ring_claim *claim, uint32_t flags) {
    if (claim->count > plan->capacity)
        return -EINVAL;
    for (uint32_t i = 0; i < claim->count; i++)
        if (plan->samples[i] >= dataset_stored_samples(plan->layout))
            return -EINVAL;
    free_splits(plan);
    plan->claim = *claim;
    memset(plan->failed, 0, divide_up(claim->count, 64) * sizeof *plan->failed);
    if ((flags & CHUNK_SORT) && (flags & CHUNK_MERGE) && sort_pays(plan, claim->count))
        sort_members(plan, claim->count);
    else if (plan->members_sorted)
        restore_members(plan);

    place_extents(plan);
    struct chunk_builder builder = {.plan = plan, .request = plan->requests, .piece = plan->pieces};
    for (uint32_t i = 0; i < plan->segment_count; i++)
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
