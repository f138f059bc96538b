#include "daemon/loader/chunk_blocks.h"

#include <string.h>

#include "base/sizes.h"
#include "daemon/loader/chunk_windows.h"

struct chunk_block_sample {
    uint32_t block, member;
};

// How many blocks a sample of the segment may lie in.
static uint64_t most_blocks(const struct chunk_plan *plan, const struct chunk_segment *segment) {
    const struct dataset_column *column = segment->column;
    if (column && column->kind == COLUMN_WINDOWS)
        return plan->parts[segment->part].layout->blocks.count ? column->stretches : 0;
    return column && column->kind == COLUMN_BLOCKS;
}

bool chunk_blocks_init(struct chunk_plan *plan) {
    uint64_t all = 0, most = 0;
    for (uint32_t i = 0; i < plan->segment_count; i++) {
        const uint64_t blocks = most_blocks(plan, &plan->segments[i]);
        all += blocks;
        most = max_u64(most, blocks);
    }
    if (!all)
        return true;
    // Pages that are never touched cost no memory.
    plan->needs = calloc(all * plan->capacity, sizeof *plan->needs);
    plan->need_samples = calloc(all * plan->capacity, sizeof *plan->need_samples);
    plan->block_samples = calloc(most * plan->capacity, sizeof *plan->block_samples);
    return plan->needs && plan->need_samples && plan->block_samples;
}

void chunk_blocks_free(struct chunk_plan *plan) {
    free(plan->needs);
    free(plan->need_samples);
    free(plan->block_samples);
}

void chunk_blocks_begin(struct chunk_plan *plan) {
    plan->block_sample_count = 0;
}

void chunk_blocks_add(struct chunk_plan *plan, uint32_t block, uint32_t member) {
    plan->block_samples[plan->block_sample_count++] = (struct chunk_block_sample){block, member};
}

static int compare(const void *left, const void *right) {
    const struct chunk_block_sample *a = left, *b = right;
    return a->block != b->block ? (a->block > b->block) - (a->block < b->block)
                                : (a->member > b->member) - (a->member < b->member);
}

void chunk_blocks_end(struct chunk_plan *plan, uint32_t segment) {
    const uint32_t count = plan->block_sample_count;
    struct chunk_block_sample *samples = plan->block_samples;
    struct chunk_need *need = NULL;
    bool sorted = true;
    for (uint32_t i = 1; i < count && sorted; i++)
        sorted = samples[i - 1].block <= samples[i].block;
    if (!sorted)
        qsort(samples, count, sizeof *samples, compare);
    for (uint32_t i = 0; i < count; i++) {
        if (!need || need->block != samples[i].block) {
            need = &plan->needs[plan->need_count++];
            *need = (struct chunk_need){.chunk = plan->chunk,
                                        .segment = segment,
                                        .block = samples[i].block,
                                        .first_sample = plan->need_sample_count};
        }
        plan->need_samples[plan->need_sample_count++] = samples[i].member;
        need->sample_count++;
    }
}

// What the window has of the block.
static void copy_of_window(const struct chunk_plan *plan, const struct chunk_need *need, uint32_t member,
                           const uint8_t *decoded) {
    const struct chunk_segment *segment = &plan->segments[need->segment];
    const uint64_t sample = chunk_stored_sample(plan, segment, member);
    const uint64_t from = chunk_window_block(plan, segment, sample, need->block);
    const struct chunk_stretch stretch = chunk_window_stretch(plan, segment, sample, from);
    memcpy(chunk_extent_address(segment->extents, member) + from, decoded + stretch.offset, stretch.bytes);
}

void chunk_blocks_copy(const struct chunk_plan *plan, const struct chunk_need *need, const uint8_t *decoded) {
    const struct chunk_segment *segment = &plan->segments[need->segment];
    for (uint32_t i = 0; i < need->sample_count; i++) {
        const uint32_t member = plan->need_samples[need->first_sample + i];
        if (segment->column->kind == COLUMN_WINDOWS) {
            copy_of_window(plan, need, member, decoded);
            continue;
        }
        const struct index_extent *extent =
            chunk_index_extent(plan, segment, chunk_stored_sample(plan, segment, member));
        memcpy(chunk_extent_address(segment->extents, member), decoded + extent->offset,
               min_u64(extent->bytes, segment->bytes));
    }
}
