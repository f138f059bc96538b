#include "daemon/source/index/indexed_files.h"

#include <string.h>

#include "base/sizes.h"
#include "base/time.h"

void indexed_files_release(struct indexed_files *files) {
    for (uint32_t i = 0; i < files->count; i++) {
        index_rows_release(&files->parts[i]);
        incomplete_part_release(&files->incomplete[i]);
        source_file_release(&files->files[i]);
    }
    free(files->files);
    free(files->parts);
    free(files->incomplete);
    free(files->counts);
    free(files->states);
    *files = (struct indexed_files){0};
}

static int open_files(struct builder *builder, const struct path_list *list, struct indexed_files *files) {
    if (list->count > DATASET_MAX_FILES)
        return builder_refuse(builder, -EMFILE, NULL, "found too many files, wanted at most %u in a dataset",
                              DATASET_MAX_FILES);
    files->files = calloc(list->count, sizeof *files->files);
    files->parts = calloc(list->count, sizeof *files->parts);
    files->incomplete = calloc(list->count, sizeof *files->incomplete);
    files->counts = calloc(list->count, sizeof *files->counts);
    files->states = calloc(list->count, sizeof *files->states);
    if (!files->files || !files->parts || !files->incomplete || !files->counts || !files->states)
        return builder_out_of_memory(builder);
    int err = 0;
    for (uint32_t i = 0; i < list->count && !err; i++) {
        files->files[i] = SOURCE_FILE_NONE;
        files->count++;
        err = builder_open(builder, list->paths[i], &files->files[i]);
    }
    return err;
}

static int look_at(struct builder *builder, const struct source_file *file, struct index_file_state *state) {
    int err = index_file_state(file, state);
    return err ? builder_refuse(builder, err, file->path, "%s", strerror(-err)) : 0;
}

static int add_to_key(struct builder *builder, struct indexed_files *files, struct index_key *key) {
    for (uint32_t i = 0; i < files->count; i++) {
        int err = look_at(builder, &files->files[i], &files->states[i]);
        if (err)
            return err;
        *key = index_key_add_file(*key, &files->files[i], &files->states[i]);
    }
    return 0;
}

// An index of a file that was written to meanwhile would fit neither what it was nor what it is.
static int check_unchanged(struct builder *builder, const struct indexed_files *files) {
    for (uint32_t i = 0; i < files->count; i++) {
        const struct index_file_state *before = &files->states[i];
        struct index_file_state now;
        int err = look_at(builder, &files->files[i], &now);
        if (err)
            return err;
        if (now.bytes != before->bytes || now.written_s != before->written_s ||
            now.written_ns != before->written_ns)
            return builder_refuse(builder, -ESTALE, files->files[i].path,
                                  "the file was changed while it was indexed; try again when it is complete");
    }
    return 0;
}

static int make_columns(struct builder *builder, struct indexed_files *files,
                        const struct indexed_work *work) {
    uint64_t samples = 0;
    for (uint32_t i = 0; i < files->count; i++)
        samples += files->counts[i] = files->parts[i].count;
    if (!samples)
        return builder_refuse(builder, -ENODATA, NULL, "found no samples");
    AUTO_FREE uint64_t *incomplete = NULL;
    int err = incomplete_collect(builder, files->incomplete, files->counts, files->count, &incomplete);
    return err ? err
               : builder_index_marked(builder, files->parts, files->count, work->row_bytes, work->columns,
                                      work->column_count, NULL, incomplete);
}

static int make_index(struct builder *builder, struct indexed_files *files, const struct indexed_work *work) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < files->count; i++)
        bytes += files->files[i].size;
    index_progress_begin(builder->progress, files->count, bytes);
    int err = work->scan(builder, files, work->context);
    if (!err)
        err = check_unchanged(builder, files);
    if (err)
        return err;
    return work->make ? work->make(builder, files, work->context) : make_columns(builder, files, work);
}

// 1: the dataset has the kept index.
static int load(struct builder *builder, struct index_cache *cache, struct indexed_files *files,
                const struct indexed_work *work) {
    bool fits = true;
    if (!work->make)
        return index_cache_load(cache, work->columns, work->column_count, files->files, files->counts,
                                files->count);
    int known = index_cache_load(cache, NULL, 0, NULL, files->counts, files->count);
    int err = known > 0 ? work->take_kept(builder, files, work->context, &fits) : 0;
    if (err || fits)
        return err ? err : known;
    builder_index_discard(builder);
    int waited = index_cache_claim(cache);
    return waited < 0 ? waited : 0;
}

static uint64_t samples_of(const struct indexed_files *files) {
    uint64_t samples = 0;
    for (uint32_t i = 0; i < files->count; i++)
        samples += files->counts[i];
    return samples;
}

static int index_files(struct builder *builder, struct indexed_files *files, struct index_key key,
                       const struct indexed_work *work) {
    struct index_cache cache CLEANUP(index_cache_close) = {0};
    uint64_t started_ns = monotonic_ns();
    int err = add_to_key(builder, files, &key);
    if (!err)
        err = index_cache_open(&cache, builder, key);
    if (err)
        return err;
    int known = load(builder, &cache, files, work);
    if (known > 0)
        err = incomplete_read_notes(builder, &cache, files->count);
    else
        err = known ? known : make_index(builder, files, work);
    if (!err && !known)
        err = incomplete_write_notes(builder, &cache);
    if (!err)
        err = incomplete_check(builder, files->files, samples_of(files));
    if (err)
        return err;
    if (!known)
        index_cache_store(&cache, files->counts, files->count);
    index_cache_describe(&cache, known, (double)(monotonic_ns() - started_ns) / NS_PER_S, builder->dataset);
    return 0;
}

// In order, to the dataset's last stream.
static int add_files(struct builder *builder, struct indexed_files *files, bool columns) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < files->count; i++) {
        bytes += files->files[i].size;
        int err = builder_add_file(builder, &files->files[i], 0, files->counts[i]);
        if (err)
            return err;
    }
    struct dataset_layout *layout = builder->dataset->layout;
    struct dataset_stream *stream = &layout->streams[layout->stream_count - 1];
    if (columns)
        stream->record_bytes = max_u64(1, bytes / dataset_stream_samples(layout, stream)); // on average
    return 0;
}

int indexed_files_build(struct builder *builder, struct indexed_files *files, struct index_key key,
                        const struct indexed_work *work) {
    AUTO_PATHS struct path_list list = {0};
    *files = (struct indexed_files){0};
    builder->key = "path";
    int err = builder_expand(builder, builder->config->path, &list);
    if (!err)
        err = builder_add_stream(builder, 1);
    if (!err)
        err = open_files(builder, &list, files);
    if (!err)
        err = index_files(builder, files, key, work);
    return err ? err : add_files(builder, files, !work->make);
}
