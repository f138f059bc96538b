#include "daemon/loader/chunk_windows.h"

#include "base/sizes.h"

// The last one that begins at that byte of the sequence or before.
static uint64_t find_stretch(const struct index_stretch *stretches, uint64_t count, uint64_t at) {
    uint64_t low = 0;
    while (count - low > 1) {
        const uint64_t middle = low + (count - low) / 2;
        if (stretches[middle].first <= at)
            low = middle;
        else
            count = middle;
    }
    return low;
}

static const struct index_windows *windows_of(const struct chunk_plan *plan,
                                              const struct chunk_segment *segment) {
    return (const void *)(chunk_index(plan, segment) + segment->column->offset);
}

struct chunk_stretch chunk_window_stretch(const struct chunk_plan *plan, const struct chunk_segment *segment,
                                          uint64_t sample, uint64_t from) {
    const struct index_windows *windows = windows_of(plan, segment);
    const struct index_stretch *stretches = (const void *)(windows + 1);
    const uint64_t at = sample * segment->stream->record_bytes + from;
    const uint64_t found = find_stretch(stretches, windows->count, at);
    const struct index_stretch *stretch = &stretches[found];
    const uint64_t end = found + 1 < windows->count ? stretch[1].first : windows->bytes;
    const struct chunk_part *part = &plan->parts[segment->part];
    struct chunk_stretch place = {.file = part->first_file + stretch->file,
                                  .offset = stretch->offset + (at - stretch->first),
                                  .bytes = min_u64(end - at, segment->bytes - from)};
    if (!part->layout->blocks.count)
        return place;
    const struct index_block *block = chunk_blocks(plan, segment) + stretch->file;
    place.file = part->first_file + block->file;
    place.coded = block->codec != BLOCK_PLAIN;
    place.block = stretch->file;
    place.offset += place.coded ? 0 : block->stored[0].offset;
    return place;
}

uint64_t chunk_window_block(const struct chunk_plan *plan, const struct chunk_segment *segment,
                            uint64_t sample, uint32_t block) {
    const struct index_windows *windows = windows_of(plan, segment);
    const struct index_stretch *stretches = (const void *)(windows + 1);
    uint64_t low = 0, high = windows->count - 1;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (stretches[middle].file < block)
            low = middle + 1;
        else
            high = middle;
    }
    const uint64_t at = sample * segment->stream->record_bytes, first = stretches[low].first;
    return first > at ? first - at : 0;
}
