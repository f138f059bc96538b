#include "daemon/source/source_tar.h"

#include "base/sizes.h"
#include "daemon/source/builder_files.h"
#include "daemon/source/tar_scan.h"

static int describe_tar(struct builder *builder) {
    struct tar_fields fields;
    return tar_fields_parse(builder, true, &fields);
}

static int check_compression(struct builder *builder, const struct source_file *file) {
    uint8_t head[4];
    const char *kind = NULL;
    int err =
        file->size < sizeof head ? 0 : builder_read(builder, file, head, sizeof head, 0, "a tar header");
    if (!err && file->size >= sizeof head)
        kind = builder_compression(head);
    if (kind)
        err = builder_refuse(builder, -EINVAL, file->path,
                             "found %s data, wanted an uncompressed tar archive; unpack it first", kind);
    return err;
}

struct shards {
    struct tar_archive *archives;
    struct source_file *files;
    struct index_rows *parts;
    uint32_t count;
};

static void release(struct shards *shards) {
    for (uint32_t i = 0; shards->archives && shards->files && i < shards->count; i++) {
        index_rows_release(&shards->archives[i].rows);
        source_file_release(&shards->files[i]);
    }
    free(shards->archives);
    free(shards->files);
    free(shards->parts);
}

static int open_files(struct builder *builder, const struct path_list *list, struct shards *shards) {
    if (list->count > DATASET_MAX_FILES)
        return builder_refuse(builder, -EMFILE, NULL, "found too many files, wanted at most %u in a dataset",
                              DATASET_MAX_FILES);
    shards->archives = calloc(list->count, sizeof *shards->archives);
    shards->files = calloc(list->count, sizeof *shards->files);
    shards->parts = calloc(list->count, sizeof *shards->parts);
    if (!shards->archives || !shards->files || !shards->parts)
        return builder_out_of_memory(builder);
    for (uint32_t i = 0; i < list->count; i++) {
        struct source_file *file = &shards->files[i];
        *file = SOURCE_FILE_NONE;
        shards->count++;
        int err = builder_open(builder, list->paths[i], file);
        if (!err)
            err = check_compression(builder, file);
        if (err)
            return err;
        shards->archives[i] = (struct tar_archive){.fd = file->fd, .bytes = file->size, .file = i};
    }
    return 0;
}

// The files follow each other in the dataset as their samples do.
static int add_files(struct builder *builder, struct shards *shards) {
    struct dataset_layout *layout = builder->dataset->layout;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < shards->count; i++) {
        struct tar_archive *archive = &shards->archives[i];
        if (archive->error.code)
            return builder_refuse(builder, archive->error.code, shards->files[i].path, "%s",
                                  archive->error.text);
        bytes += archive->bytes;
        shards->parts[i] = archive->rows;
        int err = builder_add_file(builder, &shards->files[i], 0, archive->rows.count);
        if (err)
            return err;
        layout = builder->dataset->layout; // it may have moved
    }
    struct dataset_stream *stream = &layout->streams[0];
    stream->record_bytes = max_u64(1, bytes / dataset_stream_samples(layout, stream)); // on average
    return 0;
}

static int open_tar(struct builder *builder) {
    struct tar_fields fields;
    struct index_field columns[RING_MAX_FIELDS];
    AUTO_PATHS struct path_list list = {0};
    struct shards shards CLEANUP(release) = {0};
    int err = tar_fields_parse(builder, false, &fields);
    builder->key = "path";
    if (!err)
        err = builder_expand(builder, builder->config->path, &list);
    if (!err)
        err = builder_add_stream(builder, 1);
    if (!err)
        err = open_files(builder, &list, &shards);
    if (err)
        return err;
    tar_scan(&fields, shards.archives, shards.count);
    for (uint32_t i = 0; i < fields.count; i++)
        columns[i] = fields.fields[i].index;
    err = add_files(builder, &shards);
    return err ? err
               : builder_index(builder, shards.parts, shards.count, fields.row_bytes, columns, fields.count);
}

const struct source_format source_tar = {
    .name = "tar",
    .summary = "WebDataset shards: tar archives, one key per sample",
    .describe = describe_tar,
    .open = open_tar,
};
