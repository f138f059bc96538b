// The file on disk of a cache of decoded images (shm/sample_cache.h): NAME.USER.KEY.samples in the folder cache_path.
// It is used only if it belongs to this user or root, nobody else may write to it, and it has no other name. If its
// head does not say that it is of this key and size, it is made anew. What it holds, loaders check. All of its space is
// reserved when it is made, so that nobody finds the disk full who writes to a map of it. A lock keeps two daemons
// apart; loaders have it, too, so it is waited for: they may live a little longer than their daemon.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_CACHE_FILE_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_CACHE_FILE_H

#include <sys/types.h>

#include "base/error.h"
#include "shm/sample_cache.h"

struct cache_file {
    const char *folder;
    const char *dataset; // its name
    uid_t user;
    struct sample_cache_plan plan;
    struct sample_cache_key key;
    // All keys that the configuration's datasets have. Files of this dataset with others are removed, if all are known.
    const struct sample_cache_key *wanted;
    size_t wanted_count;
    bool removes_others;
};

// Opens the file and makes the memory that goes with it. May wait for storage. The caller closes both.
int cache_file_open(const struct cache_file *file, int *memory_fd, int *file_fd, struct error *error);

#endif
