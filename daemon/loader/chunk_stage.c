#include "daemon/loader/chunk_stage.h"

#include "base/error.h"
#include "daemon/loader/chunk_varying.h"
#include "daemon/loader/chunk_windows.h"
#include "shm/stats.h"

struct staging {
    struct chunk_plan *plan;
    const struct chunk_segment *segment;
    const struct chunk_extent *extent;
    uint64_t offset; // of the extent in the record
    uint32_t first;  // sample of the chunk that the current run begins with
    bool lacks;      // its stage has left it for later
    chunk_refused *refused;
    void *context;
};

bool chunk_has_stages(const struct chunk_plan *plan) {
    for (uint32_t i = 0; i < plan->extent_count; i++)
        if (plan->extents[i].stage)
            return true;
    return false;
}

bool chunk_has_slow_stages(const struct chunk_plan *plan) {
    for (uint32_t i = 0; i < plan->extent_count; i++)
        if (plan->extents[i].stage && plan->extents[i].stage->ops->slow)
            return true;
    return false;
}

// Where the sample was read from.
static void find_place(const struct staging *staging, uint64_t sample, struct chunk_refusal *refusal) {
    const struct chunk_plan *plan = staging->plan;
    const struct chunk_segment *segment = staging->segment;
    if (segment->column &&
        (segment->column->kind == COLUMN_EXTENTS || segment->column->kind == COLUMN_BLOCKS)) {
        const struct chunk_place place = chunk_find_place(plan, segment, sample);
        refusal->file = place.number;
        refusal->offset = place.offset;
        return;
    }
    if (segment->column && segment->column->kind == COLUMN_WINDOWS) {
        const struct chunk_stretch stretch = chunk_window_stretch(plan, segment, sample, 0);
        refusal->file = stretch.file;
        refusal->offset =
            stretch.coded ? chunk_blocks(plan, segment)[stretch.block].stored[0].offset : stretch.offset;
        return;
    }
    const struct dataset_stream *stream = segment->stream;
    refusal->file = dataset_find_file(plan->layout, stream, sample, stream->first_file);
    const struct dataset_file *file = &plan->layout->files[refusal->file];
    refusal->offset =
        file->data_offset + (sample - file->first_sample) * stream->record_bytes + staging->offset;
}

static void take_refusal(void *context, uint32_t i, const struct error *error) {
    struct staging *staging = context;
    const struct chunk_plan *plan = staging->plan;
    uint32_t sample = staging->first + i;
    staging->lacks = plan->patient && staging->extent->stage->ops->slow && error_is_lack(error->code);
    if (staging->lacks || !chunk_plan_mark_failed(staging->plan, sample))
        return;
    struct chunk_refusal refusal = {
        .sample = sample,
        .stage = staging->extent->stage->ops->name,
        .error = error,
    };
    find_place(staging, chunk_stored_sample(plan, staging->segment, sample), &refusal);
    staging->refused(staging->context, &refusal);
}

static struct sample_cache_counts cache_counts(const struct staging *staging) {
    const struct stage_set *stages = staging->plan->parts[staging->segment->part].stages;
    return stages && stages->cache ? stages->cache->counts : (struct sample_cache_counts){0};
}

// What a cache has given and taken since.
static void count_cached(const struct staging *staging, const struct sample_cache_counts *before) {
    const struct sample_cache_counts now = cache_counts(staging);
    struct stats_loader *stats = staging->plan->stats;
    if (!stats)
        return;
    stats_add(&stats->counters[LOADER_cached], now.found - before->found);
    stats_add(&stats->counters[LOADER_cache_stored], now.stored - before->stored);
    stats_add(&stats->counters[LOADER_cache_bytes], now.stored_bytes - before->stored_bytes);
}

static bool is_of_part(const struct chunk_plan *plan, const struct chunk_extent *extent, uint32_t part) {
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        const struct chunk_segment *segment = &plan->segments[i];
        if (extent >= segment->extents && extent < segment->extents + segment->extent_count)
            return segment->part == part;
    }
    return false;
}

// Only what is read apart from the slot is still as it was.
static bool find_sample(void *context, uint32_t field, struct stage_sample *sample) {
    const struct staging *staging = context;
    const struct chunk_plan *plan = staging->plan;
    for (uint32_t i = 0; i < plan->extent_count; i++) {
        const struct chunk_extent *extent = &plan->extents[i];
        if (extent->field != field || !extent->needed || !is_of_part(plan, extent, staging->segment->part))
            continue;
        *sample = (struct stage_sample){
            .stored = chunk_extent_address(extent, staging->first),
            .bytes = chunk_stored_bytes(plan, extent, staging->first),
            .cached = extent->cached ? extent->cached[staging->first] : (struct sample_cached){0},
        };
        return true;
    }
    return false;
}

static void run(struct staging *staging, uint32_t first, uint32_t count) {
    const struct chunk_plan *plan = staging->plan;
    const struct chunk_extent *extent = staging->extent;
    const struct stage_run run = {
        .stored = chunk_extent_address(extent, first),
        .delivered = chunk_delivered(plan, extent) + first * extent->delivered,
        .stored_bytes = chunk_stored_bytes(plan, extent, first),
        .delivered_bytes = extent->delivered,
        .count = count,
        .samples = plan->samples + first,
        .seed = plan->ring->header->seed,
        .epoch = plan->claim.epoch,
        .first_position = plan->claim.first_position + first,
        .stored_sample = chunk_stored_sample(plan, staging->segment, first),
        .cached = extent->cached ? extent->cached[first] : (struct sample_cached){0},
        .stats = plan->stats,
        .find = find_sample,
        .refused = take_refusal,
        .context = staging,
    };
    const struct sample_cache_counts before = cache_counts(staging);
    staging->first = first;
    if (!extent->stage->ops->slow || !plan->stats) {
        extent->stage->ops->run(extent->stage, &run);
    } else if (stats_stage_begin(plan->stats, run.samples[0])) {
        extent->stage->ops->run(extent->stage, &run);
        stats_stage_end(plan->stats);
    } else {
        stage_refuse(&run, 0, -EIO, "loaders have crashed, hung or been killed while they worked on it");
    }
    count_cached(staging, &before);
}

// Runs of samples that have not failed.
static void run_extent(struct staging *staging, uint32_t first, uint32_t end) {
    const uint32_t most = staging->extent->stage->ops->slow ? 1 : UINT32_MAX;
    for (uint32_t from = first, to; from < end; from = to) {
        to = from;
        while (to < end && to - from < most && !chunk_plan_failed(staging->plan, to))
            to++;
        if (to > from)
            run(staging, from, to - from);
        while (to < end && chunk_plan_failed(staging->plan, to))
            to++;
    }
}

// Of a mix, whose parts take turns: sample by sample.
static void run_part(struct staging *staging, uint32_t first, uint32_t end) {
    const struct chunk_plan *plan = staging->plan;
    const struct chunk_part *part = &plan->parts[staging->segment->part];
    for (uint32_t i = 0; i < part->member_count; i++) {
        uint32_t member = plan->members[part->first_member + i];
        if (member >= first && member < end && !chunk_plan_failed(plan, member))
            run(staging, member, 1);
    }
}

static void run_stage(struct staging *staging, uint32_t first, uint32_t end) {
    if (staging->extent->stage && staging->plan->part_count > 1)
        run_part(staging, first, end);
    else if (staging->extent->stage)
        run_extent(staging, first, end);
}

bool chunk_stage_run(struct chunk_plan *plan, uint32_t first, uint32_t count, chunk_refused *refused,
                     void *context) {
    struct staging staging = {.plan = plan, .refused = refused, .context = context};
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        staging.segment = &plan->segments[i];
        staging.offset = staging.segment->offset;
        for (uint32_t k = 0; k < staging.segment->extent_count; k++) {
            staging.extent = &staging.segment->extents[k];
            staging.offset += staging.extent->gap;
            const uint32_t number = (uint32_t)(staging.extent - plan->extents);
            if (number >= plan->staged_extents)
                run_stage(&staging, first, first + count);
            if (staging.lacks) {
                plan->staged_extents = number;
                return false;
            }
            staging.offset += staging.extent->bytes;
        }
    }
    plan->staged_extents = 0;
    return true;
}
