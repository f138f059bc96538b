#include "daemon/source/source_tar.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/source/builder_files.h"
#include "daemon/source/index_cache.h"
#include "daemon/source/tar_scan.h"

#define INDEX_VERSION 1u // of what a scan makes of files and fields

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
    struct tar_fields fields;
    struct tar_archive *archives;
    struct source_file *files;
    struct index_rows *parts;
    uint64_t *counts; // samples of each
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
    free(shards->counts);
}

static int open_files(struct builder *builder, const struct path_list *list, struct shards *shards) {
    if (list->count > DATASET_MAX_FILES)
        return builder_refuse(builder, -EMFILE, NULL, "found too many files, wanted at most %u in a dataset",
                              DATASET_MAX_FILES);
    shards->archives = calloc(list->count, sizeof *shards->archives);
    shards->files = calloc(list->count, sizeof *shards->files);
    shards->parts = calloc(list->count, sizeof *shards->parts);
    shards->counts = calloc(list->count, sizeof *shards->counts);
    if (!shards->archives || !shards->files || !shards->parts || !shards->counts)
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

// ---- The index ---------------------------------------------------------------------------------------------

static int make_key(struct builder *builder, const struct shards *shards, struct index_key *key) {
    *key = index_key_add((struct index_key){INDEX_VERSION, 0}, "tar", sizeof "tar");
    for (uint32_t i = 0; i < shards->fields.count; i++) {
        const struct tar_field *field = &shards->fields.fields[i];
        const uint32_t type[] = {field->kind, field->dtype};
        *key = index_key_add(*key, type, sizeof type);
        *key = index_key_add(*key, field->extensions, strlen(field->extensions) + 1);
    }
    for (uint32_t i = 0; i < shards->count; i++) {
        int err = index_key_add_file(key, &shards->files[i]);
        if (err)
            return builder_refuse(builder, err, shards->files[i].path, "%s", strerror(-err));
    }
    return 0;
}

static int scan(struct builder *builder, struct shards *shards, const struct index_field *columns) {
    tar_scan(&shards->fields, shards->archives, shards->count);
    for (uint32_t i = 0; i < shards->count; i++) {
        const struct tar_archive *archive = &shards->archives[i];
        if (archive->error.code)
            return builder_refuse(builder, archive->error.code, shards->files[i].path, "%s",
                                  archive->error.text);
        shards->parts[i] = archive->rows;
        shards->counts[i] = archive->rows.count;
    }
    return builder_index(builder, shards->parts, shards->count, shards->fields.row_bytes, columns,
                         shards->fields.count);
}

static int index_shards(struct builder *builder, struct shards *shards, struct index_cache *cache) {
    struct index_field columns[RING_MAX_FIELDS];
    struct dataset *dataset = builder->dataset;
    uint64_t started_ns = monotonic_ns();
    for (uint32_t i = 0; i < shards->fields.count; i++)
        columns[i] = shards->fields.fields[i].index;
    int known = index_cache_load(cache, columns, shards->fields.count, shards->counts, shards->count);
    int err = known ? (known < 0 ? known : 0) : scan(builder, shards, columns);
    if (err)
        return err;
    double seconds = (double)(monotonic_ns() - started_ns) / NS_PER_S;
    if (!known)
        index_cache_store(cache, shards->counts, shards->count);
    const char *kept = *cache->problem ? ", not kept: "
                       : cache->folder ? ", kept in "
                                       : ", not kept: index_folder is not set";
    const char *where = *cache->problem ? cache->problem : cache->folder ? cache->folder : "";
    snprintf(dataset->index_note, sizeof dataset->index_note, "index of %" PRIu64 " KiB, %s in %.2f s%s%s",
             dataset->layout->index_bytes >> 10, known ? "read" : "made", seconds, known ? "" : kept,
             known ? "" : where);
    return 0;
}

// The files follow each other in the dataset as their samples do.
static int add_files(struct builder *builder, struct shards *shards) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < shards->count; i++) {
        bytes += shards->files[i].size;
        int err = builder_add_file(builder, &shards->files[i], 0, shards->counts[i]);
        if (err)
            return err;
    }
    struct dataset_layout *layout = builder->dataset->layout;
    struct dataset_stream *stream = &layout->streams[0];
    stream->record_bytes = max_u64(1, bytes / dataset_stream_samples(layout, stream)); // on average
    return 0;
}

static int open_tar(struct builder *builder) {
    struct index_key key = {0};
    AUTO_PATHS struct path_list list = {0};
    struct shards shards CLEANUP(release) = {0};
    struct index_cache cache CLEANUP(index_cache_close) = {0};
    int err = tar_fields_parse(builder, false, &shards.fields);
    builder->key = "path";
    if (!err)
        err = builder_expand(builder, builder->config->path, &list);
    if (!err)
        err = builder_add_stream(builder, 1);
    if (!err)
        err = open_files(builder, &list, &shards);
    if (!err)
        err = make_key(builder, &shards, &key);
    if (!err)
        err = index_cache_open(&cache, builder, key);
    if (!err)
        err = index_shards(builder, &shards, &cache);
    return err ? err : add_files(builder, &shards);
}

const struct source_format source_tar = {
    .name = "tar",
    .summary = "WebDataset shards: tar archives, one key per sample",
    .describe = describe_tar,
    .open = open_tar,
};
