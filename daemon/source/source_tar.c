#include "daemon/source/source_tar.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/log.h"
#include "daemon/on_error.h"
#include "daemon/source/index/indexed_files.h"
#include "daemon/source/tar/tar_scan.h"

#define INDEX_VERSION 2u // of what a scan makes of files and fields, and of what is noted with it
#define MOST_WARNINGS 8u // of one kind, when a dataset is indexed

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

static struct index_key key_of(const struct tar_fields *fields) {
    struct index_key key = index_key_add((struct index_key){INDEX_VERSION, 0}, "tar", sizeof "tar");
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct tar_field *field = &fields->fields[i];
        const uint32_t type[] = {field->value.kind, field->value.dtype};
        key = index_key_add(key, type, sizeof type);
        key = index_key_add(key, field->extensions, strlen(field->extensions) + 1);
    }
    return key;
}

// A download that broke off between two members looks like this; so do archives of programs that write no end.
static void warn_unended(struct builder *builder, const struct indexed_files *files,
                         const struct tar_archive *archives) {
    struct dataset *dataset = builder->dataset;
    for (uint32_t i = files->count; i-- > 0;)
        if (archives[i].simply_ends) {
            dataset->unended++;
            dataset->first_unended = i;
        }
    for (uint32_t i = 0, warned = 0; i < files->count && warned < MOST_WARNINGS; i++)
        if (archives[i].simply_ends) {
            log_warning("%s ends without the blocks of zeros that end a tar archive, and may have been cut",
                        files->files[i].path);
            warned++;
        }
    if (dataset->unended > MOST_WARNINGS)
        log_warning("so do %" PRIu32 " more archives of dataset %s", dataset->unended - MOST_WARNINGS,
                    builder->config->name);
}

static int scan(struct builder *builder, struct indexed_files *files, void *context) {
    AUTO_FREE struct tar_archive *archives = calloc(files->count, sizeof *archives);
    if (!archives)
        return builder_out_of_memory(builder);
    int err = 0;
    for (uint32_t i = 0; i < files->count && !err; i++) {
        const struct source_file *file = &files->files[i];
        archives[i] = (struct tar_archive){.fd = file->fd, .bytes = file->size, .file = i};
        err = check_compression(builder, file);
    }
    if (err)
        return err;
    tar_scan(context, builder->config->on_error != ON_ERROR_FAIL, archives, files->count, builder->progress);
    for (uint32_t i = 0; i < files->count; i++) {
        files->parts[i] = archives[i].rows;
        files->incomplete[i] = archives[i].incomplete;
    }
    for (uint32_t i = 0; i < files->count; i++)
        if (archives[i].error.code)
            return builder_refuse(builder, archives[i].error.code, files->files[i].path, "%s",
                                  archives[i].error.text);
    warn_unended(builder, files, archives);
    return 0;
}

static int open_tar(struct builder *builder) {
    struct indexed_files files CLEANUP(indexed_files_release) = {0};
    struct index_field columns[RING_MAX_FIELDS];
    struct tar_fields fields;
    int err = tar_fields_parse(builder, false, &fields);
    for (uint32_t i = 0; i < fields.count; i++)
        columns[i] = fields.fields[i].value.index;
    const struct indexed_work work = {scan, &fields, columns, fields.count, fields.row_bytes};
    return err ? err : indexed_files_build(builder, &files, key_of(&fields), &work);
}

const struct source_format source_tar = {
    .name = "tar",
    .summary = "WebDataset shards: tar archives, one key per sample",
    .describe = describe_tar,
    .open = open_tar,
};
