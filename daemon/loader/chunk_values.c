#include "daemon/loader/chunk_values.h"

#include <string.h>

#include "base/sizes.h"

static void copy_values(const struct chunk_plan *plan, const struct chunk_segment *segment) {
    const uint8_t *values = plan->index + segment->column->offset;
    uint8_t *to = segment->extents->start;
    for (uint32_t member = 0; member < plan->claim.count; member++, to += segment->bytes)
        memcpy(to, values + plan->samples[member] * segment->bytes, segment->bytes);
}

// The last document that begins at or before the token; among empty ones and the one after them, that is the latter.
static uint64_t find_document(const uint64_t *starts, uint64_t count, uint64_t token) {
    uint64_t low = 0;
    while (count - low > 1) {
        uint64_t middle = low + (count - low) / 2;
        if (starts[middle] <= token)
            low = middle;
        else
            count = middle;
    }
    return low;
}

// The window's tokens, document by document.
static void make_window(const struct index_documents *documents, const uint64_t *starts, uint64_t token,
                        uint64_t tokens, bool positions, int32_t *to) {
    uint64_t document = find_document(starts, documents->count, token), end = token + tokens;
    while (token < end) {
        uint64_t stop = document + 1 < documents->count ? min_u64(starts[document + 1], end) : end;
        int32_t value = (int32_t)(positions ? token - starts[document] : documents->first + document);
        for (; token < stop; token++, value += positions)
            *to++ = value;
        document++;
    }
}

static void make_windows(const struct chunk_plan *plan, const struct chunk_segment *segment) {
    const struct dataset_column *column = segment->column;
    const struct dataset_stream *stream = segment->stream;
    const struct index_documents *of_files =
        (const struct index_documents *)(const void *)(plan->index + column->offset);
    uint64_t tokens = column->bytes / sizeof(int32_t);
    uint32_t file = stream->first_file;
    int32_t *to = (int32_t *)(void *)segment->extents->start;
    for (uint32_t member = 0; member < plan->claim.count; member++, to += tokens) {
        file = dataset_find_file(plan->layout, stream, plan->samples[member], file);
        const struct index_documents *documents = &of_files[file - stream->first_file];
        const uint64_t *starts = (const uint64_t *)(const void *)(plan->index + documents->starts);
        uint64_t window = plan->samples[member] - plan->layout->files[file].first_sample;
        make_window(documents, starts, window * (tokens - 1), tokens, column->kind == COLUMN_POSITIONS, to);
    }
}

void chunk_make_values(const struct chunk_plan *plan, const struct chunk_segment *segment) {
    if (segment->column->kind == COLUMN_VALUES)
        copy_values(plan, segment);
    else
        make_windows(plan, segment);
}
