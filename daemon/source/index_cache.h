// Indices on disk, so that files that were indexed once need not be again. One file per dataset and state of its files:
// NAME.KEY.index, where KEY is a hash of all that the index depends on.
//
// A kept index is used only if it is whole (a hash says so), belongs to this user or root, and nobody else may write to
// it; otherwise it is as if there were none. It appears under its name when it is complete.
#ifndef FEEDD_DAEMON_SOURCE_INDEX_CACHE_H
#define FEEDD_DAEMON_SOURCE_INDEX_CACHE_H

#include "daemon/source/builder_index.h"

struct index_key {
    uint64_t low, high;
};

struct index_cache {
    struct builder *builder;
    char *folder; // NULL: indices are not kept
    struct index_key key;
    // For people: why the index could not be kept; "".
    char problem[128];
};

// Takes `part` into the key: what the fields are made of.
struct index_key index_key_add(struct index_key key, const void *part, size_t bytes);

// ... and a file: its path, and what changes when it is written to. Returns 0 or negative errno.
int index_key_add_file(struct index_key *key, const struct source_file *file);

// Uses the configuration's index_folder, or $CACHE_DIRECTORY.
int index_cache_open(struct index_cache *cache, struct builder *builder, struct index_key key);

// 1: the dataset has the kept index, and counts[i] is how many samples file i has. 0: there is none. Negative errno
// with the builder's error filled.
int index_cache_load(struct index_cache *cache, const struct index_field *fields, uint32_t field_count,
                     uint64_t *counts, uint32_t file_count);

// Keeps the dataset's index, and removes older ones of this dataset.
void index_cache_store(struct index_cache *cache, const uint64_t *counts, uint32_t file_count);

void index_cache_close(struct index_cache *cache);

#endif
