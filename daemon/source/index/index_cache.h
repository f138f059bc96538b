// Indices on disk, so that files that were indexed once need not be again. One file per dataset and state of its files:
// NAME.KEY.index, where KEY is a hash of all that the index depends on.
//
// A kept index is used only if it is whole (a hash says so), belongs to this user or root, nobody else may write to it,
// and its extents lie in the files; otherwise it is as if there were none. It gets its name when it is complete.
#ifndef FEEDD_DAEMON_SOURCE_INDEX_INDEX_CACHE_H
#define FEEDD_DAEMON_SOURCE_INDEX_INDEX_CACHE_H

#include "daemon/source/build/builder_index.h"
#include "daemon/source/index/index_claims.h"

// What differs when a file was written to or replaced. Part of keys, so it has no holes.
struct index_file_state {
    uint64_t inode, bytes;
    int64_t written_s, written_ns;
    int64_t changed_s, changed_ns; // also when it was renamed, linked and the like
};

struct index_cache {
    struct builder *builder;
    char *folder; // NULL: indices are not kept
    struct index_key key;
    // What is kept with the index, for whoever has to find out whether it still fits; freed when this is closed.
    void *notes;
    uint64_t notes_bytes;
    struct index_claim claim;
    bool claimed; // this thread is to build the index
    // For people: why the index could not be kept; "".
    char problem[128];
};

// Takes `part` into the key: what the fields are made of.
struct index_key index_key_add(struct index_key key, const void *part, size_t bytes);

// Returns 0 or negative errno.
int index_file_state(const struct source_file *file, struct index_file_state *state);

// Takes a file into the key: its path and its state.
struct index_key index_key_add_file(struct index_key key, const struct source_file *file,
                                    const struct index_file_state *state);

// Uses the configuration's index_folder, or $CACHE_DIRECTORY.
int index_cache_open(struct index_cache *cache, struct builder *builder, struct index_key key);

// 1: the dataset has the kept index, the cache its notes, and counts[i] is how many samples files[i] has. 0: there is
// none, and the caller is to build it; no other thread of this process does. Without `files`, the caller checks what
// the index holds; without `fields`, it finds columns and blocks, too: the layout says only how many blocks there are.
// Negative errno with the builder's error filled: -EINPROGRESS if there is none and the builder is to build none.
int index_cache_load(struct index_cache *cache, const struct index_field *fields, uint32_t field_count,
                     const struct source_file *files, uint64_t *counts, uint32_t file_count);

// For a caller that finds that the kept index does not fit, and is to build another one: as when there is none. 0; 1 if
// another thread has built it meanwhile; or -EINPROGRESS.
int index_cache_claim(struct index_cache *cache);

// Keeps the dataset's index and the notes, and removes older ones of this dataset.
void index_cache_store(struct index_cache *cache, const uint64_t *counts, uint32_t file_count);

// Says in the dataset's index_note what has become of its index: it was `known`, or made.
void index_cache_describe(const struct index_cache *cache, bool known, double seconds,
                          struct dataset *dataset);

void index_cache_close(struct index_cache *cache);

#endif
