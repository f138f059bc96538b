// Documents: runs of values of one type that lie end to end in a file. Each of them is a sample of a ragged field; or,
// with `pack`, they are laid end to end and windows are cut from them.
#ifndef FEEDD_DAEMON_SOURCE_TOKENS_DOCUMENTS_H
#define FEEDD_DAEMON_SOURCE_TOKENS_DOCUMENTS_H

#include "daemon/source/build/builder_files.h"

// Of one file.
struct documents {
    uint64_t values; // in all of them
    uint64_t count;
    uint64_t *starts; // count + 1 of them, in values, in order: the first is 0, the last is `values`
};

// Of all files, in their order.
struct document_files {
    struct documents *files;
    uint32_t count;
    uint32_t dtype;
    uint64_t documents; // in the files that were added
    uint64_t bytes;     // of these files
};

// How many windows are cut from them.
static inline uint64_t documents_windows(const struct documents *documents, uint64_t pack) {
    return documents->values ? (documents->values - 1) / pack : 0;
}

int document_files_init(struct builder *builder, const struct path_list *list, struct document_files *files);
void document_files_release(struct document_files *files);

// Adds the fields of such a dataset and its stream: a field `name`, or, with `pack`, the fields of windows.
int documents_add_fields(struct builder *builder, const char *name, uint32_t dtype);

// Refuses documents that have too many values, and files that have too many documents together.
int documents_check(struct builder *builder, const struct document_files *files,
                    const struct documents *documents, const char *path);

// Takes the file over (also on failure): the documents of files->files[i], which lie in it from `data_offset` on.
int documents_add_file(struct builder *builder, struct document_files *files, uint32_t i,
                       struct source_file *file, uint64_t data_offset);

// Makes the index, once all files have been added.
int documents_index(struct builder *builder, const struct document_files *files);

#endif
