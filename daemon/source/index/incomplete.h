// Samples that a format has found to be incomplete while it made the index: of a tar archive, those that lack a member,
// or in which something else stands where a number should; of Arrow and Parquet files, rows with a null; rows of a CSV
// file that name no file. With on_error = skip or replace they stay in the index,
// marked by a bit each and without bytes, and are left out or replaced like samples that cannot be read.
#ifndef FEEDD_DAEMON_SOURCE_INDEX_INCOMPLETE_H
#define FEEDD_DAEMON_SOURCE_INDEX_INCOMPLETE_H

#include "daemon/dataset/incomplete_list.h"
#include "daemon/source/build/builder_index.h"
#include "daemon/source/index/index_cache.h"

// Those of one file, in order.
struct incomplete_part {
    struct index_rows rows; // u64: its number among the samples of the file
    uint32_t reason_count;
    char *reasons[INCOMPLETE_LISTED]; // of the first ones
};

// False: no memory.
bool incomplete_add(struct incomplete_part *part, uint64_t sample, const char *reason);
void incomplete_part_release(struct incomplete_part *part);

// Gives the dataset its list, and marks each sample in *bits, which the caller frees. `counts` are the samples of the
// files. Without any, the dataset has no list, and *bits is NULL.
int incomplete_collect(struct builder *builder, const struct incomplete_part *parts, const uint64_t *counts,
                       uint32_t file_count, uint64_t **bits);

// The list as the notes of a kept index, and back, with how many archives lack their end. None of both: no notes.
int incomplete_write_notes(struct builder *builder, struct index_cache *cache);
int incomplete_read_notes(struct builder *builder, const struct index_cache *cache, uint32_t file_count);

// Refuses a dataset with such samples and on_error = fail, and one that has no others.
int incomplete_check(struct builder *builder, const struct source_file *files, uint64_t samples);

#endif
