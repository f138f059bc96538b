#include "daemon/source/tokens/boundaries.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_index.h"
#include "daemon/source/build/builder_pad.h"

static const char name[] = "cu_seqlens";

// A walk through the windows of all files.
struct walk {
    struct index_writer *writer;
    uint64_t pack;
    uint64_t windows, boundaries;            // so far
    int (*step)(struct walk *, uint64_t at); // with each boundary; returns 0 or negative errno
    int (*end)(struct walk *, uint64_t count);
    uint64_t place; // in the index: where the next window's boundaries begin
};

int boundaries_add_field(struct builder *builder) {
    struct dataset_layout *layout = builder->dataset->layout;
    struct dataset_column *column = &layout->columns[layout->column_count];
    const char *const names[] = {name};
    uint64_t length;
    uint32_t index;
    *column = (struct dataset_column){.field = layout->field_count, .kind = COLUMN_TEXT};
    int err = builder_pad(builder, name, DTYPE_I32, &length, &column->pad);
    if (!err)
        err = builder_check_pads(builder, names, 1);
    if (!err)
        err = length ? builder_add_field(builder, name, DTYPE_I32, 1, &length, &index)
                     : builder_add_ragged_field(builder, name, DTYPE_I32);
    column->bytes = length * sizeof(int32_t);
    layout->column_count++;
    return err;
}

static int add(struct walk *walk, uint64_t at, uint64_t *count) {
    ++*count;
    return walk->step ? walk->step(walk, at) : 0;
}

// *document: the first one that may begin after the window's first token.
static int walk_window(struct walk *walk, const struct documents *documents, uint64_t first,
                       uint64_t *document) {
    uint64_t count = 0, last = 0;
    int err = add(walk, 0, &count);
    for (; *document < documents->count && documents->starts[*document] < first + walk->pack && !err;
         ++*document) {
        uint64_t start = documents->starts[*document];
        if (start <= first + last)
            continue;
        last = start - first;
        err = add(walk, last, &count);
    }
    if (!err)
        err = add(walk, walk->pack, &count);
    walk->windows++;
    walk->boundaries += count;
    return err || !walk->end ? err : walk->end(walk, count);
}

static int walk_files(struct walk *walk, const struct document_files *files) {
    int err = 0;
    for (uint32_t i = 0; i < files->count && !err; i++) {
        const struct documents *documents = &files->files[i];
        uint64_t document = 0;
        for (uint64_t first = 0; first + walk->pack < documents->values && !err; first += walk->pack)
            err = walk_window(walk, documents, first, &document);
    }
    return err;
}

int boundaries_place(struct builder *builder, const struct document_files *files) {
    struct dataset_layout *layout = builder->dataset->layout;
    struct walk walk = {.pack = builder->config->pack};
    walk_files(&walk, files);
    if (walk.windows > INDEX_MAX_SAMPLES || walk.boundaries > 2ull * INDEX_MAX_SAMPLES)
        return builder_refuse(builder, -EFBIG, NULL,
                              "found %" PRIu64 " windows with %" PRIu64
                              " boundaries of documents, wanted at most"
                              " %u and %u with cu_seqlens",
                              walk.windows, walk.boundaries, INDEX_MAX_SAMPLES, 2 * INDEX_MAX_SAMPLES);
    layout->columns[layout->column_count - 1].offset = layout->index_bytes;
    layout->index_bytes += walk.windows * sizeof(struct index_extent) +
                           align_up(walk.boundaries * sizeof(int32_t), sizeof(uint64_t));
    return 0;
}

static int write_extent(struct walk *walk, uint64_t count) {
    const struct index_extent extent = {.offset = walk->place, .bytes = (uint32_t)(count * sizeof(int32_t))};
    walk->place += extent.bytes;
    return index_write(walk->writer, &extent, sizeof extent);
}

static int write_boundary(struct walk *walk, uint64_t at) {
    const int32_t boundary = (int32_t)at;
    return index_write(walk->writer, &boundary, sizeof boundary);
}

int boundaries_write(struct index_writer *writer, const struct document_files *files) {
    const struct dataset_layout *layout = writer->builder->dataset->layout;
    uint64_t windows = 0;
    for (uint32_t i = 0; i < files->count; i++)
        windows += documents_windows(&files->files[i], writer->builder->config->pack);
    struct walk extents = {.writer = writer,
                           .pack = writer->builder->config->pack,
                           .end = write_extent,
                           .place = layout->columns[layout->column_count - 1].offset +
                                    windows * sizeof(struct index_extent)};
    struct walk values = {.writer = writer, .pack = extents.pack, .step = write_boundary};
    int err = walk_files(&extents, files);
    if (!err)
        err = walk_files(&values, files);
    return err ? err : index_align(writer);
}
