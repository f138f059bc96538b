#include "daemon/source/arrow/arrow_dataset.h"

#include <string.h>

#include "daemon/on_error.h"
#include "daemon/source/arrow/arrow_sequence.h"
#include "daemon/source/index/crew.h"
#include "daemon/source/index/indexed_files.h"
#include "daemon/source/tokens/sequence_kept.h"

struct work {
    struct arrow_fields fields;
    arrow_scan_file_t *scan_file;
    struct arrow_scan *scans;
};

int arrow_dataset_describe(struct builder *builder) {
    struct arrow_fields fields;
    return arrow_fields_parse(builder, true, &fields);
}

static struct index_key key_of(const struct dataset_config *config, const struct arrow_fields *fields,
                               const char *name, uint32_t version) {
    struct index_key key = index_key_add((struct index_key){version, 0}, name, strlen(name) + 1);
    const uint64_t windows[] = {config->pack, config->cu_seqlens};
    if (config->pack)
        key = index_key_add(key, windows, sizeof windows);
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct arrow_want *want = &fields->fields[i];
        const uint32_t type[] = {want->form, want->dtype, want->dimensions};
        key = index_key_add(key, type, sizeof type);
        if (want->form == ARROW_ARRAY)
            key = index_key_add(key, want->shape, sizeof want->shape);
        key = index_key_add(key, want->path, strlen(want->path) + 1);
    }
    return key;
}

static int scan_one(void *context, uint32_t index) {
    const struct work *work = context;
    struct arrow_scan *scan = &work->scans[index];
    int err = work->scan_file(&work->fields, scan);
    index_progress_bytes(scan->progress, scan->bytes);
    index_progress_file(scan->progress);
    return err;
}

static int scan(struct builder *builder, struct indexed_files *files, void *context) {
    struct work *work = context;
    AUTO_FREE struct arrow_scan *scans = calloc(files->count, sizeof *scans);
    if (!scans)
        return builder_out_of_memory(builder);
    for (uint32_t i = 0; i < files->count; i++)
        scans[i] = (struct arrow_scan){
            .fd = files->files[i].fd,
            .bytes = files->files[i].size,
            .file = i,
            // Windows of packed text extend across documents, so that none can be left out.
            .listed = builder->config->on_error != ON_ERROR_FAIL && !builder->config->pack,
            .progress = builder->progress};
    work->scans = scans;
    crew_work(scan_one, work, files->count);
    for (uint32_t i = 0; i < files->count; i++) {
        files->parts[i] = scans[i].rows;
        files->incomplete[i] = scans[i].incomplete;
    }
    for (uint32_t i = 0; i < files->count; i++)
        if (scans[i].error.code)
            return builder_refuse(builder, scans[i].error.code, files->files[i].path, "%s",
                                  scans[i].error.text);
    return 0;
}

static int make_sequence(struct builder *builder, struct indexed_files *files, void *context) {
    const struct work *work = context;
    return arrow_sequence_make(builder, files, &work->fields.fields[0]);
}

static int take_kept_sequence(struct builder *builder, struct indexed_files *files, void *context,
                              bool *fits) {
    (void)context;
    return sequence_take_kept(builder, files->files, files->count, files->counts, fits);
}

int arrow_dataset_open(struct builder *builder, const char *name, uint32_t version,
                       arrow_scan_file_t *scan_file) {
    struct indexed_files files CLEANUP(indexed_files_release) = {0};
    struct index_field columns[RING_MAX_FIELDS];
    struct work work = {.scan_file = scan_file};
    const struct arrow_fields *fields = &work.fields;
    int err = arrow_fields_parse(builder, false, &work.fields);
    if (err)
        return err;
    for (uint32_t i = 0; i < fields->count; i++)
        columns[i] = fields->fields[i].index;
    const bool packed = builder->config->pack;
    const struct indexed_work files_work = {.scan = scan,
                                            .context = &work,
                                            .columns = columns,
                                            .column_count = fields->count,
                                            .row_bytes = fields->row_bytes,
                                            .make = packed ? make_sequence : NULL,
                                            .take_kept = packed ? take_kept_sequence : NULL};
    return indexed_files_build(builder, &files, key_of(builder->config, fields, name, version), &files_work);
}
