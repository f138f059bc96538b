// Whether a folder is as it was when its index was made, without looking at every file: all of its directories have to
// have the same time stamps, and so, with the same size, has one file in so many. What else has changed is found when
// the file is read.
#ifndef FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_STATE_H
#define FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_STATE_H

#include <time.h>

#include "daemon/source/folder/folder_roots.h"
#include "daemon/source/folder/folder_tree.h"
#include "daemon/source/index/index_cache.h"

// Writes the notes of a cache. `tree` may have no folders: then only files are looked at. -ENOMEM.
int folder_state_note(struct index_cache *cache, const struct dataset *dataset, uint64_t samples,
                      const struct folder_roots *roots, const struct folder_tree *tree);

// Whether what a kept index says can be taken for granted by loaders: its text lies in it.
bool folder_index_fits(const struct dataset *dataset, uint64_t samples, uint32_t root_count);

// Whether the notes of a cache still hold. The dataset has the kept index, and gets when its files were written to.
bool folder_state_holds(const struct index_cache *cache, struct dataset *dataset, uint64_t samples,
                        const struct folder_roots *roots);

// Whether a directory has changed so shortly before `start`, the time when it was read at the earliest, that another
// change might have the same time stamp.
bool folder_state_is_fresh(const struct folder_tree *tree, const struct timespec *start);

#endif
