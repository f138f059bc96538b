// Where the samples of a dataset are in its files, according to the daemon, and reading them without the daemon.
#ifndef FEEDD_CLIENT_CTL_FILES_H
#define FEEDD_CLIENT_CTL_FILES_H

#include <limits.h>

#include "base/error.h"
#include "client/ctl/ctl.h"
#include "client/ctl/files_blocks.h"
#include "client/ctl/files_index.h"
#include "client/ctl/files_list.h"
#include "client/feed.h"

#define FILES_OPEN 64u // descriptors kept open

// A file as one field sees it.
struct file_part {
    uint32_t file; // in `paths`
    uint64_t first_sample, samples;
    uint64_t data_offset; // of the field's bytes in the first sample
    uint64_t record_bytes;
    uint64_t bytes; // of the field in one sample
};

struct file_parts {
    struct file_part *parts; // by first_sample
    size_t count, room;
    bool transformed; // the delivered bytes differ from the stored ones
};

struct files {
    char **paths;
    size_t path_count, path_room;
    uint32_t field_count;
    struct files_list list;                    // of a view, or of a source that is shuffled in windows
    uint64_t seed;                             // of the run
    bool replaces;                             // others take the places of samples that cannot be read
    struct file_parts fields[FEED_MAX_FIELDS]; // of those that the index has, only `transformed`
    struct file_parts whole;                   // the files themselves, whatever fields they hold
    struct files_index index;                  // of a dataset that has one
    struct files_blocks blocks;                // of an index that has some
    uint32_t open_most;                        // FILES_OPEN, or fewer if there are other such structures
    char opened[PATH_MAX + 64];                // the last file of a folder, or block, that was read
    struct {
        uint32_t file;
        int fd;
    } open[FILES_OPEN]; // file i in place i mod open_most; fd < 0: none
};

// Asks the daemon for the files of a dataset, or of a view's dataset, and checks that they hold every sample of every
// field. `seed` is that of the run. `windows`: asks for the groups of its shuffle windows, too.
int files_open(struct files *files, const struct ctl *ctl, const struct feed_description *description,
               uint64_t seed, bool windows, struct error *error);

// The number in the files of what is sample `sample` in that epoch.
uint64_t files_sample(const struct files *files, uint64_t epoch, uint64_t sample);

// The bytes of a ragged field in one sample, as the files number them.
uint64_t files_ragged_bytes(const struct files *files, uint32_t field, uint64_t sample);

// Reads one field of one sample, as the files number them. `path` and `offset` are for files_find_byte.
int files_read(struct files *files, uint32_t field, uint64_t sample, void *bytes, size_t count,
               const char **path, uint64_t *offset, struct error *error);

// Finds byte `at` of what files_read has read: `path` and `offset`, as files_read has set them, become those of that
// byte, until the next call.
void files_find_byte(struct files *files, uint32_t field, uint64_t sample, uint64_t at, const char **path,
                     uint64_t *offset);

void files_close(struct files *files);

#endif
