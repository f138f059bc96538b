#include "daemon/source/tokens/sequence_kept.h"

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_index.h"
#include "daemon/source/tokens/documents.h"
#include "daemon/source/tokens/sequence_layout.h"

struct kept {
    struct builder *builder;
    const struct sequence_head *head;
    uint64_t bytes; // of the index
    const struct index_block *blocks;
    uint64_t block_count;
    uint64_t tables_end;
    const struct source_file *files;
    uint32_t file_count;
};

// Nothing else may be read before this has been checked.
static bool holds_tables(struct kept *kept) {
    const struct sequence_head *head = kept->head;
    if (kept->bytes < sizeof *head)
        return false;
    const uint64_t stretches = head->windows.count, documents = head->documents.count;
    if (!stretches || !documents || stretches > kept->bytes / sizeof head->stretches[0] ||
        documents > min_u64(INT32_MAX, kept->bytes / sizeof(uint64_t)))
        return false;
    const uint64_t starts_end = sequence_starts_end(stretches, documents);
    kept->blocks = (const void *)((const uint8_t *)head + starts_end);
    kept->tables_end = starts_end + kept->block_count * sizeof *kept->blocks;
    return head->documents.first == 0 && head->documents.starts == sequence_starts_at(stretches) &&
           (kept->builder->config->cu_seqlens ? kept->tables_end < kept->bytes
                                              : kept->tables_end == kept->bytes);
}

static bool take_blocks(const struct kept *kept) {
    struct dataset_layout *layout = kept->builder->dataset->layout;
    layout->blocks = (struct dataset_blocks){
        .offset = (uint64_t)((const uint8_t *)kept->blocks - (const uint8_t *)kept->head),
        .count = kept->block_count};
    for (uint64_t i = 0; i < kept->block_count; i++) {
        const uint32_t file = kept->blocks[i].file;
        if (file >= kept->file_count || !block_is_sound(&kept->blocks[i], kept->files[file].size))
            return false;
        builder_index_count_block(layout, &kept->blocks[i]);
    }
    return true;
}

// The file that a stretch is of, which has been checked.
static uint32_t file_of(const struct kept *kept, const struct index_stretch *stretch) {
    return kept->block_count ? kept->blocks[stretch->file].file : stretch->file;
}

static bool lies_in(const struct kept *kept, const struct index_stretch *stretch, uint64_t bytes) {
    if (stretch->file >= (kept->block_count ? kept->block_count : kept->file_count))
        return false;
    const uint64_t room =
        kept->block_count ? kept->blocks[stretch->file].decoded : kept->files[stretch->file].size;
    return stretch->offset <= room && bytes <= room - stretch->offset;
}

// Whether a stretch may follow another one: from file to file, and never in the same block, since loaders find
// stretches by the numbers of blocks.
static bool may_follow(const struct kept *kept, const struct index_stretch *stretch) {
    const struct index_stretch *before = stretch - 1;
    return file_of(kept, stretch) >= file_of(kept, before) &&
           (!kept->block_count || stretch->file > before->file);
}

// Each lies in its file or block, and they follow each other.
static bool stretches_lie_in(const struct kept *kept, uint64_t token_bytes) {
    const struct index_windows *windows = &kept->head->windows;
    const struct index_stretch *stretches = kept->head->stretches;
    if (stretches[0].first != 0)
        return false;
    for (uint64_t i = 0; i < windows->count; i++) {
        const uint64_t end = i + 1 < windows->count ? stretches[i + 1].first : windows->bytes;
        if (end <= stretches[i].first || end % token_bytes ||
            !lies_in(kept, &stretches[i], end - stretches[i].first) ||
            (i && !may_follow(kept, &stretches[i])))
            return false;
    }
    return true;
}

static bool starts_rise(const struct kept *kept, uint64_t tokens) {
    const struct index_documents *documents = &kept->head->documents;
    const uint64_t *starts = (const void *)((const uint8_t *)kept->head + documents->starts);
    for (uint64_t i = 1; i < documents->count; i++)
        if (starts[i] < starts[i - 1] || starts[i] > tokens)
            return false;
    return starts[0] == 0;
}

// The last column: an extent per window, and then what they delimit, in order, to the end of the index.
static bool boundaries_lie_in(struct kept *kept, uint64_t windows) {
    struct dataset_layout *layout = kept->builder->dataset->layout;
    struct dataset_column *column = &layout->columns[layout->column_count - 1];
    column->offset = kept->tables_end;
    const struct index_extent *extents = (const void *)((const uint8_t *)kept->head + column->offset);
    if (windows > (kept->bytes - column->offset) / sizeof *extents)
        return false;
    uint64_t at = column->offset + windows * sizeof *extents;
    for (uint64_t i = 0; i < windows && at <= kept->bytes; at += extents[i++].bytes)
        if (extents[i].offset != at || extents[i].bytes % sizeof(int32_t))
            return false;
    return align_up(at, sizeof(uint64_t)) == kept->bytes;
}

static void count_windows(const struct kept *kept, uint64_t windows, uint64_t *counts) {
    const struct index_windows *sequence = &kept->head->windows;
    const struct index_stretch *stretches = kept->head->stretches;
    const uint64_t token_bytes = dtype_bytes(kept->builder->dataset->layout->fields[0].dtype);
    uint64_t before = 0, next = 0;
    for (uint32_t file = 0; file < kept->file_count; file++) {
        while (next < sequence->count && file_of(kept, &stretches[next]) == file)
            next++;
        const uint64_t end = next < sequence->count ? stretches[next].first : sequence->bytes;
        const uint64_t begun = sequence_windows_before(kept->builder, end / token_bytes, windows);
        counts[file] = begun - before;
        before = begun;
    }
}

static bool take(struct kept *kept, uint64_t *counts, uint64_t *samples) {
    struct builder *builder = kept->builder;
    const uint64_t token_bytes = dtype_bytes(builder->dataset->layout->fields[0].dtype);
    uint64_t most;
    if (!holds_tables(kept) || !take_blocks(kept) || !stretches_lie_in(kept, token_bytes))
        return false;
    const struct index_windows *sequence = &kept->head->windows;
    const struct documents documents = {.values = sequence->bytes / token_bytes};
    const uint64_t windows = documents_windows(&documents, builder->config->pack);
    if (!windows || windows > INDEX_MAX_SAMPLES || windows != kept->head->index.samples ||
        !starts_rise(kept, documents.values) ||
        sequence_place(builder, sequence, kept->head->stretches, &most) ||
        (builder->config->cu_seqlens && !boundaries_lie_in(kept, windows)))
        return false;
    count_windows(kept, windows, counts);
    *samples = windows;
    return true;
}

int sequence_take_kept(struct builder *builder, const struct source_file *files, uint32_t file_count,
                       uint64_t *counts, bool *fits) {
    struct dataset *dataset = builder->dataset;
    int err = builder_index_map(builder);
    if (err)
        return err;
    struct kept kept = {.builder = builder,
                        .head = (const void *)dataset->index,
                        .bytes = dataset->layout->index_bytes,
                        .files = files,
                        .block_count = dataset->layout->blocks.count,
                        .file_count = file_count};
    uint64_t samples;
    *fits = take(&kept, counts, &samples);
    return *fits ? sequence_add_groups(builder, &kept.head->windows, kept.head->stretches, samples) : 0;
}
