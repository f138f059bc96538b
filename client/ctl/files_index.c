#include "client/ctl/files_index.h"

#include <string.h>

#include "base/path_text.h"
#include "base/repeat.h"
#include "base/sizes.h"
#include "block/block.h"
#include "client/ctl/query.h"

// The entry of one file in a column of POSITIONS or DOCUMENTS.
struct documents {
    uint64_t first;  // number of the first one
    uint64_t count;  // at least 1
    uint64_t starts; // offset in the index of where each begins, in tokens
};

// The start of a column of WINDOWS, and one stretch, of which `count` follow.
struct windows {
    uint64_t bytes; // of the sequence
    uint64_t count;
};
struct stretch {
    uint64_t first; // byte of the sequence that it begins with
    uint64_t offset;
    uint32_t file;
    uint32_t reserved;
};

// ---- Asking ----------------------------------------------------------------------------------------

int files_index_take(struct files_index *index, uint32_t field_count, const Feedd__Answer *page,
                     struct error *error) {
    for (size_t i = 0; i < page->n_columns; i++) {
        const Feedd__Column *row = page->columns[i];
        if (row->field >= field_count ||
            !protobuf_c_enum_descriptor_get_value(&feedd__column__kind__descriptor, (int)row->kind))
            return error_set(error, -EPROTO, "feedd describes an index that this version does not know");
        index->known = true;
        index->columns[row->field] = (struct files_column){.known = true,
                                                           .transformed = row->transformed,
                                                           .ragged = row->ragged,
                                                           .kind = row->kind,
                                                           .offset = row->offset,
                                                           .bytes = row->bytes,
                                                           .pad = row->pad,
                                                           .text = row->text,
                                                           .blocks = row->blocks,
                                                           .block_count = row->block_count,
                                                           .across = row->across};
    }
    return 0;
}

static int take_words(const Feedd__Answer *page, void *context, struct error *error) {
    struct files_index *index = context;
    if (index->count + page->n_index > index->room) {
        size_t room = 2 * index->room + page->n_index;
        uint64_t *grown = reallocarray(index->words, room, sizeof *grown);
        if (!grown)
            return error_set(error, -ENOMEM, "out of memory");
        index->words = grown;
        index->room = room;
    }
    if (page->n_index)
        memcpy(index->words + index->count, page->index, page->n_index * sizeof *index->words);
    index->count += page->n_index;
    if (index->count && index->count > index->words[0] / sizeof *index->words)
        return error_set(error, -EPROTO, "feedd sends more of its index than there is");
    return 0;
}

int files_index_ask(struct files_index *index, struct connection *connection, const char *dataset,
                    struct error *error) {
    int err = query_ask(connection, FEEDD__QUERY__KIND__INDEX, dataset, take_words, index, error);
    if (err)
        return err;
    if (index->count == 0 || index->words[0] != index->count * sizeof *index->words)
        return error_set(error, -EPROTO, "feedd sends %zu bytes of its index, which are not all",
                         index->count * sizeof *index->words);
    return 0;
}

void files_index_free(struct files_index *index) {
    free(index->words);
    index->words = NULL;
}

// ---- Checking --------------------------------------------------------------------------------------

// Whether `count` entries of `bytes` each lie at `offset`.
static bool holds(const struct files_index *index, uint64_t offset, uint64_t count, uint64_t bytes) {
    const uint64_t size = index->count * sizeof *index->words;
    uint64_t needed;
    return offset % sizeof *index->words == 0 && offset <= size &&
           !__builtin_mul_overflow(count, bytes, &needed) && needed <= size - offset;
}

static bool holds_blocks(const struct files_index *index, const struct files_column *column) {
    return column->block_count && column->block_count <= BLOCK_MAX_COUNT &&
           holds(index, column->blocks, column->block_count, sizeof(struct index_block));
}

static struct documents documents_of(const struct files_index *index, const struct files_column *column,
                                     uint32_t file) {
    struct documents documents;
    memcpy(&documents, (const uint8_t *)index->words + column->offset + file * sizeof documents,
           sizeof documents);
    return documents;
}

static struct windows windows_of(const struct files_index *index, const struct files_column *column) {
    struct windows windows;
    memcpy(&windows, (const uint8_t *)index->words + column->offset, sizeof windows);
    return windows;
}

static bool holds_windows(const struct files_index *index, const struct files_column *column) {
    if (!holds(index, column->offset, 1, sizeof(struct windows)))
        return false;
    const struct windows windows = windows_of(index, column);
    return (!column->block_count || holds_blocks(index, column)) && windows.count &&
           holds(index, column->offset + sizeof windows, windows.count, sizeof(struct stretch));
}

static bool holds_documents(const struct files_index *index, const struct files_column *column,
                            uint64_t files) {
    if (column->across)
        files = 1;
    if (!holds(index, column->offset, files, sizeof(struct documents)))
        return false;
    for (uint32_t file = 0; file < files; file++) {
        const struct documents documents = documents_of(index, column, file);
        if (documents.count == 0 || !holds(index, documents.starts, documents.count, sizeof(uint64_t)))
            return false;
    }
    return true;
}

int files_index_check(const struct files_index *index, uint32_t field, const struct feed_array *array,
                      uint64_t samples, uint64_t files, struct error *error) {
    const struct files_column *column = &index->columns[field];
    if (column->transformed)
        return 0;
    const uint64_t bytes = array->ragged ? 0 : array->bytes / array->shape[0];
    bool right = column->ragged == array->ragged;
    const bool blocks = column->kind == FEEDD__COLUMN__KIND__BLOCKS;
    const bool extents = column->kind == FEEDD__COLUMN__KIND__EXTENTS ||
                         column->kind == FEEDD__COLUMN__KIND__WITHIN ||
                         column->kind == FEEDD__COLUMN__KIND__NAMES || blocks;
    if (column->ragged)
        right = right && extents;
    else
        right = right && column->bytes == bytes;
    if (extents)
        right = right && holds(index, column->offset, samples, sizeof(struct files_extent)) &&
                (!blocks || holds_blocks(index, column));
    else if (column->kind == FEEDD__COLUMN__KIND__VALUES)
        right = right && holds(index, column->offset, samples, bytes);
    else if (column->kind == FEEDD__COLUMN__KIND__WINDOWS)
        right = right && holds_windows(index, column);
    else
        right = right && holds_documents(index, column, files);
    return right ? 0
                 : error_set(error, -EPROTO,
                             "the index that feedd sends does not hold all samples of field %u", field);
}

// ---- Reading ---------------------------------------------------------------------------------------

struct files_extent files_index_extent(const struct files_index *index, const struct files_column *column,
                                       uint64_t sample) {
    struct files_extent extent;
    memcpy(&extent, (const uint8_t *)index->words + column->offset + sample * sizeof extent, sizeof extent);
    return extent;
}

// What lies at that offset of the column's text, and how many bytes the index has from there on. NULL: it ends before.
static const uint8_t *text_at(const struct files_index *index, const struct files_column *column,
                              uint64_t offset, uint64_t *room) {
    const uint64_t size = index->count * sizeof *index->words;
    if (__builtin_add_overflow(offset, column->text, &offset) || offset > size)
        return NULL;
    *room = size - offset;
    return (const uint8_t *)index->words + offset;
}

const char *files_index_path(const struct files_index *index, const struct files_column *column,
                             uint64_t sample, char path[PATH_MAX]) {
    struct path_text text = {0};
    text.text = text_at(index, column, 0, &text.bytes);
    return text.text && path_text_get(&text, files_index_extent(index, column, sample).offset, path) ? path
                                                                                                     : NULL;
}

int files_index_within(const struct files_index *index, const struct files_column *column, uint64_t sample,
                       void *bytes, size_t count, uint64_t *offset, struct error *error) {
    const struct files_extent extent = files_index_extent(index, column, sample);
    const size_t stored = min_u64(extent.bytes, count);
    uint64_t room = 0;
    const uint8_t *text = text_at(index, column, extent.offset, &room);
    if (!text || stored > room)
        return error_set(error, -EPROTO, "the index that feedd sends names bytes that it does not have");
    *offset = column->text + extent.offset;
    memcpy(bytes, text, stored);
    repeat((uint8_t *)bytes + stored, column->pad, count - stored);
    return 0;
}

static struct stretch stretch_of(const struct files_index *index, const struct files_column *column,
                                 uint64_t number) {
    struct stretch stretch;
    memcpy(&stretch,
           (const uint8_t *)index->words + column->offset + sizeof(struct windows) + number * sizeof stretch,
           sizeof stretch);
    return stretch;
}

int files_index_stretch(const struct files_index *index, const struct files_column *column, uint64_t at,
                        uint64_t most, struct files_extent *stretch, struct error *error) {
    const struct windows windows = windows_of(index, column);
    uint64_t low = 0, high = windows.count;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (stretch_of(index, column, middle).first <= at)
            low = middle;
        else
            high = middle;
    }
    const struct stretch found = stretch_of(index, column, low);
    const uint64_t end = low + 1 < windows.count ? stretch_of(index, column, low + 1).first : windows.bytes;
    if (at < found.first || at >= end)
        return error_set(error, -EPROTO, "the index that feedd sends does not say where all windows lie");
    *stretch = (struct files_extent){.offset = found.offset + (at - found.first),
                                     .file = found.file,
                                     .bytes = (uint32_t)min_u64(min_u64(end - at, most), UINT32_MAX)};
    return 0;
}

// How many of them begin at that token or before.
static uint64_t begun(const uint64_t *starts, uint64_t count, uint64_t token) {
    uint64_t low = 0;
    while (low < count) {
        const uint64_t middle = low + (count - low) / 2;
        if (starts[middle] <= token)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

uint64_t files_index_values(const struct files_index *index, const struct files_column *column,
                            uint64_t sample, uint32_t file, uint64_t window, void *values) {
    if (column->kind == FEEDD__COLUMN__KIND__VALUES) {
        const uint64_t offset = column->offset + sample * column->bytes;
        memcpy(values, (const uint8_t *)index->words + offset, column->bytes);
        return offset;
    }
    if (column->across) {
        file = 0;
        window = sample;
    }
    const struct documents documents = documents_of(index, column, file);
    const uint64_t *starts = index->words + documents.starts / sizeof *starts;
    const uint64_t tokens = column->bytes / sizeof(int32_t), first = window * (tokens - 1);
    for (uint64_t i = 0; i < tokens; i++) {
        const uint64_t count = begun(starts, documents.count, first + i), document = count ? count - 1 : 0;
        const uint64_t value = column->kind == FEEDD__COLUMN__KIND__POSITIONS ? first + i - starts[document]
                                                                              : documents.first + document;
        const int32_t delivered = (int32_t)value;
        memcpy((uint8_t *)values + i * sizeof delivered, &delivered, sizeof delivered);
    }
    return documents.starts;
}
