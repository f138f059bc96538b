// From a tar archive to the rows of its samples.
#ifndef FEEDD_DAEMON_SOURCE_TAR_TAR_SCAN_H
#define FEEDD_DAEMON_SOURCE_TAR_TAR_SCAN_H

#include "daemon/source/index/incomplete.h"
#include "daemon/source/tar/tar_fields.h"

struct tar_archive {
    int fd;
    uint64_t bytes; // of the file
    uint32_t file;  // its number in the dataset
    // Results.
    struct index_rows rows;
    struct incomplete_part incomplete;
    bool simply_ends; // without the blocks of zeros at the end
    struct error error;
};

// Finds all samples of all archives, in several threads. Fills every archive's results, but those after one that fails
// may be left out. An archive fails at its first incomplete sample, unless such are `listed`.
void tar_scan(const struct tar_fields *fields, bool listed, struct tar_archive *archives, uint32_t count,
              struct index_progress *progress);

#endif
