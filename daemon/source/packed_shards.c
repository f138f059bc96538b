#include "daemon/source/packed_shards.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "base/dtype.h"
#include "base/sizes.h"

#define READ_BYTES (16u << 20) // at once: a table may be large, and reading it is progress

void packed_shards_release(struct packed_shards *shards) {
    for (uint32_t i = 0; i < shards->count; i++) {
        source_file_release(&shards->shards[i].file);
        free(shards->shards[i].table);
    }
    free(shards->shards);
    *shards = (struct packed_shards){0};
}

// ---- Samples -------------------------------------------------------------------------------------------------

void packed_walk_start(struct packed_walk *walk, const struct packed_header *fields,
                       const struct packed_shard *shard) {
    struct packed_header header = *fields;
    header.samples = shard->samples;
    *walk = (struct packed_walk){
        .fields = fields, .next = PACKED_PAGE, .end = shard->table_offset, .alignment = shard->alignment};
    for (uint32_t i = 0; i < fields->field_count; i++) {
        enum packed_place place = packed_place(fields, i);
        if (place == PACKED_IN_SAMPLE)
            walk->fixed[i] = packed_field_bytes(&fields->fields[i]);
        else
            walk->columns[i] = shard->table + packed_column(&header, i);
    }
}

bool packed_walk_next(struct packed_walk *walk) {
    uint64_t at = walk->next;
    for (uint32_t i = 0; i < walk->fields->field_count; i++) {
        const uint8_t *sizes = walk->fields->fields[i].ragged ? walk->columns[i] : NULL;
        uint32_t bytes = (uint32_t)walk->fixed[i];
        if (sizes)
            memcpy(&bytes, sizes + walk->sample * sizeof bytes, sizeof bytes);
        walk->offset[i] = at;
        walk->bytes[i] = bytes;
        at += bytes; // 16 fields of less than 4 GiB
    }
    walk->next = align_up(at, walk->alignment);
    walk->sample++;
    return walk->next <= walk->end;
}

static int check_samples(struct builder *builder, const struct packed_header *header,
                         const struct packed_shard *shard) {
    struct packed_walk walk;
    bool fits = true;
    packed_walk_start(&walk, header, shard);
    while (walk.sample < shard->samples && fits) {
        fits = packed_walk_next(&walk);
        for (uint32_t i = 0; i < header->field_count; i++)
            if (header->fields[i].ragged &&
                (walk.bytes[i] > PACKED_SAMPLE_BYTES || walk.bytes[i] % dtype_bytes(header->fields[i].dtype)))
                return builder_refuse(builder, -EINVAL, shard->file.path,
                                      "found %" PRIu64 " bytes in field %s of sample %" PRIu64
                                      ", wanted whole values of %s, 1 GiB at most",
                                      walk.bytes[i], header->fields[i].name, walk.sample - 1,
                                      dtype_name(header->fields[i].dtype));
    }
    if (fits && walk.next == walk.end)
        return 0;
    return builder_refuse(builder, -EINVAL, shard->file.path,
                          "found a table of samples that end at byte %" PRIu64
                          ", wanted them to end at %" PRIu64 ", where the table begins",
                          walk.next, walk.end);
}

// ---- Shards --------------------------------------------------------------------------------------------------

static int read_table(struct builder *builder, const struct packed_header *header,
                      struct packed_shard *shard) {
    int err = 0;
    shard->table = malloc(header->table_bytes);
    if (!shard->table)
        return builder_out_of_memory(builder);
    for (uint64_t at = 0; at < header->table_bytes && !err; at += READ_BYTES)
        err = builder_read(builder, &shard->file, shard->table + at,
                           min_u64(header->table_bytes - at, READ_BYTES), shard->table_offset + at,
                           "its table");
    if (err)
        return err;
    if (XXH3_64bits(shard->table, header->table_bytes) != header->table_hash)
        return builder_refuse(builder, -EINVAL, shard->file.path,
                              "found a damaged table: its hash differs; pack the dataset again");
    return check_samples(builder, header, shard);
}

// No shard may be missing: data is never left out silently. Several sets may follow each other.
static int check_order(struct builder *builder, const struct packed_header *header,
                       const struct packed_header *before, const char *path) {
    if (before->last ? header->number == 0
                     : header->set == before->set && header->number == before->number + 1)
        return 0;
    if (before->last)
        return builder_refuse(
            builder, -EINVAL, path,
            "found shard %" PRIu32 ", wanted shard 0, because the set before it is complete", header->number);
    return builder_refuse(builder, -EINVAL, path,
                          "found shard %" PRIu32 " of %s set, wanted shard %" PRIu32
                          " of the set that the files before it are of",
                          header->number, header->set == before->set ? "the" : "another", before->number + 1);
}

static int check_fields(struct builder *builder, const struct packed_shards *shards,
                        const struct packed_header *header, const char *path) {
    if (header->field_count == shards->first.field_count &&
        memcmp(header->fields, shards->first.fields, sizeof header->fields) == 0)
        return 0;
    return builder_refuse(builder, -EINVAL, path,
                          "found fields that differ from those of the files before it, wanted the same");
}

static int check_count(struct builder *builder, const struct packed_shards *shards, const char *path) {
    if (!packed_is_ragged(&shards->first) || shards->samples <= PACKED_SAMPLES)
        return 0;
    return builder_refuse(builder, -EFBIG, path, "found %" PRIu64 " samples, wanted at most %u",
                          shards->samples, PACKED_SAMPLES);
}

// *before is the header of the file before it, and becomes its own.
static int open_shard(struct builder *builder, const char *path, struct packed_shards *shards,
                      struct packed_header *before) {
    struct packed_shard *shard = &shards->shards[shards->count++];
    struct packed_header header;
    struct error error = {0};
    shard->file = SOURCE_FILE_NONE;
    int err = builder_open(builder, path, &shard->file);
    if (!err)
        err = builder_read(builder, &shard->file, &header, sizeof header, 0, "the header of a packed shard");
    if (err)
        return err;
    if (packed_check(&header, shard->file.size, &error))
        return builder_refuse(builder, error.code, path, "%s", error.text);
    if (shards->count == 1)
        shards->first = header;
    shard->samples = header.samples;
    shard->table_offset = header.table_offset;
    shard->alignment = header.alignment;
    shards->bytes += header.table_offset - PACKED_PAGE; // of files on this machine
    err = check_order(builder, &header, before, path);
    if (!err)
        err = check_fields(builder, shards, &header, path);
    if (!err && __builtin_add_overflow(shards->samples, header.samples, &shards->samples))
        err = builder_refuse(builder, -EOVERFLOW, path, "found more than 2^63 samples");
    if (!err)
        err = check_count(builder, shards, path);
    if (!err && header.table_bytes)
        err = read_table(builder, &header, shard);
    *before = header;
    return err;
}

int packed_shards_open(struct builder *builder, const struct path_list *list, struct packed_shards *shards) {
    struct packed_header before = {.last = 1};
    *shards = (struct packed_shards){0};
    if (list->count > DATASET_MAX_FILES)
        return builder_refuse(builder, -EMFILE, NULL, "found too many files, wanted at most %u in a dataset",
                              DATASET_MAX_FILES);
    shards->shards = calloc(list->count, sizeof *shards->shards);
    if (!shards->shards)
        return builder_out_of_memory(builder);
    int err = 0;
    for (size_t i = 0; i < list->count && !err; i++)
        err = open_shard(builder, list->paths[i], shards, &before);
    if (err || before.last)
        return err;
    return builder_refuse(
        builder, -ENODATA, list->paths[list->count - 1],
        "found shard %" PRIu32
        ", which is not the last of its set, and none after it; if feedctl pack was interrupted, run it"
        " again, and it continues",
        before.number);
}
