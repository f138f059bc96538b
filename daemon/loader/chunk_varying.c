#include "daemon/loader/chunk_varying.h"

#include "base/sizes.h"
#include "daemon/dataset/column_size.h"
#include "daemon/loader/stage/guarded_cache.h"

#define VARYING_ALIGN 64u // so that samples do not share a cache line

static struct chunk_varying *find(const struct chunk_plan *plan, uint32_t field) {
    for (uint32_t i = 0; i < plan->varying_count; i++)
        if (plan->varying[i].field == field)
            return &plan->varying[i];
    return NULL;
}

static bool add(struct chunk_plan *plan, uint32_t field) {
    struct chunk_varying *varying = &plan->varying[plan->varying_count++];
    *varying = (struct chunk_varying){
        .field = field,
        .places = calloc(plan->capacity, sizeof *varying->places),
        .cached = calloc(plan->capacity, sizeof *varying->cached),
        .extent = calloc(plan->part_count, sizeof(struct chunk_extent *)),
    };
    return varying->places && varying->cached && varying->extent;
}

// A part whose samples have one size shares the memory with the others.
bool chunk_varying_init(struct chunk_plan *plan) {
    plan->varying = calloc(RING_MAX_FIELDS, sizeof *plan->varying);
    plan->varying_count = 0;
    if (!plan->varying)
        return false;
    for (uint32_t i = 0; i < plan->extent_count; i++)
        if (plan->extents[i].sizes && !find(plan, plan->extents[i].field) &&
            !add(plan, plan->extents[i].field))
            return false;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        const struct chunk_segment *segment = &plan->segments[i];
        struct chunk_extent *extents = &plan->extents[segment->extents - plan->extents];
        for (uint32_t k = 0; k < segment->extent_count; k++) {
            struct chunk_varying *varying = find(plan, extents[k].field);
            if (!varying || !extents[k].stage)
                continue;
            varying->extent[segment->part] = &extents[k];
            extents[k].places = varying->places;
            extents[k].cached = varying->cached;
        }
    }
    return true;
}

void chunk_varying_free(struct chunk_plan *plan) {
    for (uint32_t i = 0; i < plan->varying_count; i++) {
        free(plan->varying[i].places);
        free(plan->varying[i].cached);
        free(plan->varying[i].extent);
        free(plan->varying[i].memory);
    }
    free(plan->varying);
}

uint64_t chunk_stored_bytes(const struct chunk_plan *plan, const struct chunk_extent *extent,
                            uint32_t member) {
    if (!extent->sizes)
        return extent->bytes;
    const uint32_t part = plan->part_of ? plan->part_of[member] : 0;
    const uint64_t sample = plan->samples[member] - plan->parts[part].first_sample;
    return min_u64(column_sample_bytes(extent->sizes, chunk_part_index(plan, part), sample), extent->bytes);
}

static int make_room(struct chunk_varying *varying, uint64_t bytes) {
    if (bytes <= varying->room)
        return 0;
    free(varying->memory);
    varying->room = 0;
    varying->memory = aligned_alloc(CACHE_LINE, align_up(bytes, CACHE_LINE));
    if (!varying->memory)
        return -ENOMEM;
    varying->room = align_up(bytes, CACHE_LINE);
    return 0;
}

// The cache that may have a sample of the claim; NULL: none.
static struct sample_cache *find_entry(const struct chunk_plan *plan, uint32_t field, uint32_t member,
                                       uint64_t *entry, uint32_t *channels) {
    const struct chunk_part *part = &plan->parts[plan->part_of ? plan->part_of[member] : 0];
    if (!part->stages || !part->stages->cache || !part->layout->cache.number[field])
        return NULL;
    *entry = dataset_cache_entry(part->layout, field, plan->samples[member] - part->first_sample);
    *channels = part->layout->images[field].steps.channels;
    return part->stages->cache;
}

// All that has to be looked at on the disk is asked for first.
static void find_cached(const struct chunk_plan *plan, struct chunk_varying *varying) {
    struct sample_cache *cache;
    uint64_t entry;
    uint32_t channels;
    for (uint32_t i = 0; i < plan->claim.count; i++)
        if ((cache = find_entry(plan, varying->field, i, &entry, &channels)))
            guarded_cache_expect(cache, entry, channels);
    for (uint32_t i = 0; i < plan->claim.count; i++) {
        cache = find_entry(plan, varying->field, i, &entry, &channels);
        varying->cached[i] = cache ? guarded_cache_find(cache, entry, channels) : (struct sample_cached){0};
    }
}

static int place(const struct chunk_plan *plan, struct chunk_varying *varying) {
    uint64_t at = 0;
    find_cached(plan, varying);
    for (uint32_t i = 0; i < plan->claim.count; i++) {
        const struct chunk_extent *extent = varying->extent[plan->part_of ? plan->part_of[i] : 0];
        varying->places[i] = at;
        if (extent && !varying->cached[i].pixels)
            at += align_up(chunk_stored_bytes(plan, extent, i), VARYING_ALIGN);
    }
    int err = make_room(varying, max_u64(at, 1));
    for (uint32_t part = 0; part < plan->part_count && !err; part++)
        if (varying->extent[part])
            varying->extent[part]->start = varying->memory;
    return err;
}

int chunk_varying_place(struct chunk_plan *plan) {
    int err = 0;
    for (uint32_t i = 0; i < plan->varying_count && !err; i++)
        err = place(plan, &plan->varying[i]);
    return err;
}

uint64_t chunk_varying_bytes(const struct chunk_plan *plan) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->varying_count; i++)
        bytes += plan->varying[i].room;
    return bytes;
}

void chunk_varying_trim(struct chunk_plan *plan) {
    for (uint32_t i = 0; i < plan->varying_count; i++) {
        free(plan->varying[i].memory);
        plan->varying[i].memory = NULL;
        plan->varying[i].room = 0;
    }
}
