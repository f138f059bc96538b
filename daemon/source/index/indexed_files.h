// The files of a dataset whose index is made by looking into each of them, or kept from an earlier time.
#ifndef FEEDD_DAEMON_SOURCE_INDEX_INDEXED_FILES_H
#define FEEDD_DAEMON_SOURCE_INDEX_INDEXED_FILES_H

#include "daemon/source/build/builder_files.h"
#include "daemon/source/index/incomplete.h"

struct indexed_files {
    struct source_file *files;
    struct index_rows *parts; // the samples of each, in rows
    struct incomplete_part *incomplete;
    uint64_t *counts;                // ... and how many
    struct index_file_state *states; // before the files were read
    uint32_t count;
};

// What makes the index out of files.
struct indexed_work {
    // Fills the parts of all files, or refuses.
    int (*scan)(struct builder *builder, struct indexed_files *files, void *context);
    void *context;
    // What the rows become, unless `make` makes something else of them.
    const struct index_field *columns;
    uint32_t column_count;
    size_t row_bytes;
    // NULL, or makes an index of another form out of the parts, which it may release, and sets files->counts and the
    // stream's record_bytes.
    int (*make)(struct builder *builder, struct indexed_files *files, void *context);
    // Does the same with an index of that form that was kept; *fits becomes false if it does not fit these files.
    int (*take_kept)(struct builder *builder, struct indexed_files *files, void *context, bool *fits);
};

// Adds a stream of the files that the dataset's path names, and gives the dataset its index: the one that was kept
// under `key`, into which the files are taken first, or a new one. `files` is to be released, also on failure.
int indexed_files_build(struct builder *builder, struct indexed_files *files, struct index_key key,
                        const struct indexed_work *work);
void indexed_files_release(struct indexed_files *files);

#endif
