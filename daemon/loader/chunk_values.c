#include "daemon/loader/chunk_values.h"

#include <string.h>

#include "base/repeat.h"
#include "base/sizes.h"

static void copy_values(const struct chunk_plan *plan, const struct chunk_segment *segment) {
    const uint8_t *values = chunk_index(plan, segment) + segment->column->offset;
    const struct chunk_part *part = &plan->parts[segment->part];
    for (uint32_t i = 0; i < part->member_count; i++) {
        uint32_t member = plan->members[part->first_member + i];
        memcpy(chunk_extent_address(segment->extents, member),
               values + chunk_stored_sample(plan, segment, member) * segment->bytes, segment->bytes);
    }
}

// As extents of files are: cut or filled up, or of any length.
static void copy_text(const struct chunk_plan *plan, const struct chunk_segment *segment) {
    const struct chunk_part *part = &plan->parts[segment->part];
    const uint8_t *text = chunk_index(plan, segment) + part->layout->text_offset;
    const struct chunk_extent *field = segment->extents;
    for (uint32_t i = 0; i < part->member_count; i++) {
        uint32_t member = plan->members[part->first_member + i];
        const struct index_extent *extent =
            chunk_index_extent(plan, segment, chunk_stored_sample(plan, segment, member));
        uint8_t *to = chunk_extent_address(field, member);
        uint64_t bytes = min_u64(extent->bytes, segment->bytes);
        memcpy(to, text + extent->offset, bytes);
        if (!field->ragged && !field->sizes)
            repeat(to + bytes, segment->column->pad, segment->bytes - bytes);
    }
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

// Most of a window is made by these two. Vectors pay off where plain -O2 of gcc 12 would not try.
#if defined __GNUC__ && !defined __clang__ && defined __OPTIMIZE__
#define VECTORS __attribute__((noinline, optimize("O3")))
#else
#define VECTORS
#endif

VECTORS static void repeat_number(int32_t *to, uint64_t count, int32_t number) {
    for (uint64_t i = 0; i < count; i++)
        to[i] = number;
}

VECTORS static void count_up(int32_t *to, uint64_t count, int32_t from) {
    for (uint64_t i = 0; i < count; i++)
        to[i] = from + (int32_t)i;
}

// The window's tokens, document by document.
static void make_window(const struct index_documents *documents, const uint64_t *starts, uint64_t token,
                        uint64_t tokens, bool positions, int32_t *to) {
    uint64_t document = find_document(starts, documents->count, token), end = token + tokens;
    while (token < end) {
        uint64_t stop = document + 1 < documents->count ? min_u64(starts[document + 1], end) : end;
        if (positions)
            count_up(to, stop - token, (int32_t)(token - starts[document]));
        else
            repeat_number(to, stop - token, (int32_t)(documents->first + document));
        to += stop - token;
        token = stop;
        document++;
    }
}

static void make_windows(const struct chunk_plan *plan, const struct chunk_segment *segment) {
    const uint8_t *index = chunk_index(plan, segment);
    const struct chunk_part *part = &plan->parts[segment->part];
    const struct dataset_column *column = segment->column;
    const struct dataset_stream *stream = segment->stream;
    const struct index_documents *of_files =
        (const struct index_documents *)(const void *)(index + column->offset);
    uint64_t tokens = column->bytes / sizeof(int32_t);
    uint32_t file = stream->first_file;
    for (uint32_t i = 0; i < part->member_count; i++) {
        uint32_t member = plan->members[part->first_member + i];
        uint64_t sample = chunk_stored_sample(plan, segment, member);
        const struct index_documents *documents = of_files;
        uint64_t window = sample;
        if (!column->stretches) {
            file = dataset_find_file(plan->layout, stream, sample, file);
            documents = &of_files[file - stream->first_file];
            window -= plan->layout->files[file].first_sample;
        }
        const uint64_t *starts = (const uint64_t *)(const void *)(index + documents->starts);
        int32_t *to = (int32_t *)(void *)chunk_extent_address(segment->extents, member);
        make_window(documents, starts, window * (tokens - 1), tokens, column->kind == COLUMN_POSITIONS, to);
    }
}

void chunk_make_values(const struct chunk_plan *plan, const struct chunk_segment *segment) {
    if (segment->column->kind == COLUMN_VALUES)
        copy_values(plan, segment);
    else if (segment->column->kind == COLUMN_TEXT)
        copy_text(plan, segment);
    else
        make_windows(plan, segment);
}
