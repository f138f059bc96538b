#include "daemon/source/source_packed.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_index.h"
#include "daemon/source/build/builder_pad.h"
#include "daemon/source/build/index_writer.h"
#include "daemon/source/packed_shards.h"

_Static_assert(PACKED_MAX_FIELDS == RING_MAX_FIELDS && PACKED_MAX_DIMS == RING_MAX_DIMS &&
                   PACKED_FIELD_NAME == RING_FIELD_NAME && PACKED_SAMPLE_BYTES == BUILDER_MAX_SAMPLE_BYTES &&
                   PACKED_SAMPLES == INDEX_MAX_SAMPLES,
               "what a shard can hold, a dataset can");

// ---- Fields --------------------------------------------------------------------------------------------------

static int check_pads(struct builder *builder, const struct packed_header *header) {
    const char *names[PACKED_MAX_FIELDS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < header->field_count; i++)
        if (header->fields[i].ragged)
            names[count++] = header->fields[i].name;
    return builder_check_pads(builder, names, count);
}

static int add_fixed(struct builder *builder, const struct packed_field *field) {
    uint32_t index;
    return builder_add_field(builder, field->name, field->dtype, field->dimensions, field->shape, &index);
}

// All fields are fixed: records, one after another.
static int add_records(struct builder *builder, const struct packed_header *header) {
    uint64_t offset = 0;
    int err = builder_add_stream(builder, align_up(packed_fixed_bytes(header), header->alignment));
    for (uint32_t i = 0; i < header->field_count && !err; i++) {
        err = add_fixed(builder, &header->fields[i]);
        if (err)
            return err;
        builder_add_extent(builder, i, offset);
        offset += packed_field_bytes(&header->fields[i]);
    }
    return err;
}

static int add_column(struct builder *builder, const struct packed_header *header, uint32_t i,
                      struct dataset_column *column) {
    const struct packed_field *field = &header->fields[i];
    bool value = packed_place(header, i) == PACKED_IN_TABLE;
    *column = (struct dataset_column){.field = i, .kind = value ? COLUMN_VALUES : COLUMN_EXTENTS};
    if (!field->ragged) {
        column->bytes = packed_field_bytes(field);
        return add_fixed(builder, field);
    }
    uint64_t length;
    uint32_t index;
    int err = builder_pad(builder, field->name, field->dtype, &length, &column->pad);
    column->bytes = length * dtype_bytes(field->dtype);
    if (err)
        return err;
    return length ? builder_add_field(builder, field->name, field->dtype, 1, &length, &index)
                  : builder_add_ragged_field(builder, field->name, field->dtype);
}

// ---- The index -----------------------------------------------------------------------------------------------

static int write_extents(struct index_writer *writer, const struct packed_shards *shards, uint32_t field) {
    int err = 0;
    for (uint32_t i = 0; i < shards->count && !err; i++) {
        struct packed_walk walk;
        packed_walk_start(&walk, &shards->first, &shards->shards[i]);
        while (walk.sample < shards->shards[i].samples && !err) {
            packed_walk_next(&walk); // all samples were found to lie in the file
            const struct index_extent extent = {walk.offset[field], i, (uint32_t)walk.bytes[field]};
            err = index_write(writer, &extent, sizeof extent);
        }
    }
    return err;
}

static int write_values(struct index_writer *writer, const struct packed_shards *shards, uint32_t field) {
    const uint64_t each = packed_entry_bytes(&shards->first, field);
    int err = 0;
    for (uint32_t i = 0; i < shards->count && !err; i++) {
        struct packed_walk walk;
        packed_walk_start(&walk, &shards->first, &shards->shards[i]);
        const uint64_t bytes = shards->shards[i].samples * each;
        for (uint64_t at = 0; at < bytes && !err; at += INDEX_BUFFER)
            err = index_write(writer, walk.columns[field] + at, min_u64(bytes - at, INDEX_BUFFER));
    }
    return err ? err : index_align(writer);
}

static int write_index(struct builder *builder, const struct packed_shards *shards,
                       const struct index_field *columns) {
    const uint32_t fields = shards->first.field_count;
    builder_index_place(builder, shards->samples, columns, fields, 0, 0);
    AUTO_FREE struct index_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return builder_out_of_memory(builder);
    int err = index_writer_open(writer, builder, shards->samples);
    for (uint32_t i = 0; i < fields && !err; i++)
        err = (columns[i].column.kind == COLUMN_VALUES ? write_values : write_extents)(writer, shards, i);
    if (!err)
        err = index_writer_finish(writer);
    index_writer_close(writer);
    return err;
}

// ---- Opening -------------------------------------------------------------------------------------------------

static int add_files(struct builder *builder, struct packed_shards *shards) {
    int err = 0;
    for (uint32_t i = 0; i < shards->count && !err; i++)
        err = builder_add_file(builder, &shards->shards[i].file, PACKED_PAGE, shards->shards[i].samples);
    return err;
}

static int open_indexed(struct builder *builder, struct packed_shards *shards) {
    struct index_field columns[PACKED_MAX_FIELDS] = {0};
    int err = builder_add_stream(builder, max_u64(1, shards->bytes / shards->samples)); // on average
    for (uint32_t i = 0; i < shards->first.field_count && !err; i++)
        err = add_column(builder, &shards->first, i, &columns[i].column);
    if (!err)
        err = add_files(builder, shards);
    return err ? err : write_index(builder, shards, columns);
}

// A stream has one distance from sample to sample.
static int check_alignments(struct builder *builder, const struct packed_shards *shards) {
    for (uint32_t i = 1; i < shards->count; i++)
        if (shards->shards[i].alignment != shards->first.alignment)
            return builder_refuse(builder, -EINVAL, shards->shards[i].file.path,
                                  "found samples aligned to %u, wanted %u as in the files before it",
                                  shards->shards[i].alignment, shards->first.alignment);
    return 0;
}

static int open_packed(struct builder *builder) {
    AUTO_PATHS struct path_list list = {0};
    struct packed_shards shards CLEANUP(packed_shards_release) = {0};
    int err = builder_expand(builder, builder->config->path, &list);
    if (!err)
        err = packed_shards_open(builder, &list, &shards);
    if (!err)
        err = check_pads(builder, &shards.first);
    if (err)
        return err;
    if (packed_is_ragged(&shards.first))
        return open_indexed(builder, &shards);
    err = check_alignments(builder, &shards);
    if (!err)
        err = add_records(builder, &shards.first);
    return err ? err : add_files(builder, &shards);
}

const struct source_format source_packed = {
    .name = "packed",
    .summary = "shards made by feedctl pack, with fields and index of their own",
    .open = open_packed,
};
