#include "daemon/loader/chunk.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/sizes.h"
#include "daemon/loader/chunk_build.h"
#include "daemon/loader/stage/transform_run.h"
#include "shm/ring_loader.h"

// A sample that finds a neighbour saves a read, some 500 ns at the least; sorting costs it some 50.
#define SORT_PAYS_ONE_IN 8

struct sort_key {
    uint64_t sample;
    uint32_t member;
};

// Also the upper bound of what chunk_build.c makes of one sample of a segment.
static uint64_t most_requests(const struct chunk_segment *segment, bool direct) {
    uint64_t parts =
        segment->bytes <= READER_MAX_BYTES ? 1 : segment->bytes / (READER_MAX_BYTES - CHUNK_CUT) + 1;
    return direct ? parts * 3 : parts; // a direct read may be cut into head, middle and tail
}

static uint64_t most_pieces(const struct chunk_segment *segment, bool direct) {
    return 2 * segment->extent_count + most_requests(segment, direct);
}

// What is read of the field in one sample. 0 if its transform is not one of what the ring has room for.
static uint64_t stored_bytes(const struct dataset_layout *layout, const struct ring *ring, uint32_t field) {
    const struct transform *transform = &layout->transforms[field];
    uint64_t delivered = ring->header->fields[field].sample_bytes;
    if (!transform->source)
        return delivered;
    bool fits = transform->elements * dtype_bytes(transform->target) == delivered &&
                transform->step_count <= TRANSFORM_MAX_STEPS;
    return fits ? transform->elements * dtype_bytes(transform->source) : 0;
}

uint64_t chunk_apart_bytes(const struct dataset_layout *layout, const struct ring *ring) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < layout->field_count && i < ring->header->field_count; i++) {
        uint64_t stored = stored_bytes(layout, ring, i);
        if (stored > ring->header->fields[i].sample_bytes)
            bytes += align_up(stored * ring->header->chunk_samples, CACHE_LINE);
    }
    return bytes;
}

static void add_extent(struct chunk_plan *plan, const struct dataset_extent *extent, uint64_t gap) {
    const struct ring_field *field = &plan->ring->header->fields[extent->field];
    const struct transform *transform = &plan->layout->transforms[extent->field];
    plan->extents[plan->extent_count++] =
        (struct chunk_extent){.slot_offset = field->slot_offset,
                              .delivered = field->sample_bytes,
                              .bytes = extent->bytes,
                              .gap = gap,
                              .transform = transform->source ? transform : NULL};
}

// One segment a run of extents with small gaps. Extents of no bytes are left out.
static int add_stream(struct chunk_plan *plan, const struct dataset_stream *stream, struct error *error) {
    struct chunk_segment *segment = NULL;
    uint64_t end = 0;
    for (uint32_t i = 0; i < stream->extent_count; i++) {
        const struct dataset_extent *extent = &stream->extents[i];
        if (extent->bytes == 0)
            continue;
        if (extent->field >= plan->layout->field_count || plan->extent_count == RING_MAX_FIELDS ||
            stored_bytes(plan->layout, plan->ring, extent->field) != extent->bytes ||
            (segment && extent->offset < end))
            return error_set(error, -EINVAL, "field %u of the dataset does not fit the ring's",
                             extent->field);
        if (!segment || extent->offset - end > READER_SCRATCH_BYTES) {
            segment = &plan->segments[plan->segment_count++];
            *segment = (struct chunk_segment){
                .stream = stream, .offset = extent->offset, .extents = &plan->extents[plan->extent_count]};
            end = extent->offset;
        }
        add_extent(plan, extent, extent->offset - end);
        segment->extent_count++;
        end = extent->offset + extent->bytes;
        segment->bytes = end - segment->offset;
    }
    uint64_t window = 1 + READER_SCRATCH_BYTES / max_u64(stream->record_bytes, 1);
    plan->merge_window = max_u64(plan->merge_window, window);
    return 0;
}

// Not touched before it is used either.
static bool set_memory_apart(struct chunk_plan *plan) {
    uint64_t bytes = chunk_apart_bytes(plan->layout, plan->ring);
    uint8_t *at = bytes ? aligned_alloc(CACHE_LINE, bytes) : NULL;
    plan->apart = at;
    for (uint32_t i = 0; i < plan->extent_count && at; i++) {
        struct chunk_extent *extent = &plan->extents[i];
        if (extent->bytes <= extent->delivered)
            continue;
        extent->apart = at;
        at += align_up(extent->bytes * plan->capacity, CACHE_LINE);
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
                    struct error *error) {
    *plan = (struct chunk_plan){.layout = layout, .ring = ring, .capacity = ring->header->chunk_samples};
    plan->chunk = plan;
    if (layout->field_count != ring->header->field_count || layout->stream_count > DATASET_MAX_STREAMS)
        return error_set(error, -EINVAL, "the ring has %u fields, the dataset %u", ring->header->field_count,
                         layout->field_count);
    for (uint32_t i = 0; i < layout->stream_count; i++) {
        int err = add_stream(plan, &layout->streams[i], error);
        if (err < 0)
            return err;
    }
    uint64_t requests = 0, pieces = 0;
    bool direct = any_direct(layout);
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        requests += most_requests(&plan->segments[i], direct);
        pieces += most_pieces(&plan->segments[i], direct);
    }
    // Large arrays are not touched before they are used, so generous bounds cost no memory.
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

// Of `count` samples out of N in random order each expects count * merge_window / N others close behind it.
static bool sort_pays(const struct chunk_plan *plan, uint32_t count) {
    bool ascending = true;
    for (uint32_t i = 1; i < count && ascending; i++)
        ascending = plan->samples[i - 1] < plan->samples[i];
    uint64_t near;
    if (ascending || __builtin_mul_overflow(plan->merge_window, (uint64_t)count * SORT_PAYS_ONE_IN, &near))
        return !ascending;
    return near >= plan->layout->samples;
}

// Order of samples is order of (file, offset), in every stream.
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

static uint8_t *delivered_place(const struct chunk_plan *plan, const struct chunk_extent *extent) {
    return ring_slot_data(plan->ring, plan->claim.slot) + extent->slot_offset +
           plan->claim.first_sample * extent->delivered;
}

static void place_extents(struct chunk_plan *plan) {
    for (uint32_t i = 0; i < plan->extent_count; i++) {
        struct chunk_extent *extent = &plan->extents[i];
        extent->start = extent->apart;
        if (!extent->apart)
            extent->start =
                delivered_place(plan, extent) + plan->claim.count * (extent->delivered - extent->bytes);
    }
}

int chunk_plan_fill(struct chunk_plan *plan, const struct ring_claim *claim, uint32_t flags) {
    if (claim->count > plan->capacity)
        return -EINVAL;
    for (uint32_t i = 0; i < claim->count; i++)
        if (plan->samples[i] >= plan->layout->samples)
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

void chunk_plan_transform(const struct chunk_plan *plan) {
    for (uint32_t i = 0; i < plan->extent_count; i++) {
        const struct chunk_extent *extent = &plan->extents[i];
        if (extent->transform)
            transform_run(extent->transform, extent->start, delivered_place(plan, extent), plan->claim.count);
    }
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

bool chunk_plan_mark_failed(struct chunk_plan *plan, const struct read_request *request, uint32_t index) {
    uint32_t sample = chunk_request_sample(plan, request, index);
    uint64_t bit = UINT64_C(1) << (sample % 64);
    if (plan->failed[sample / 64] & bit)
        return false;
    plan->failed[sample / 64] |= bit;
    return true;
}
