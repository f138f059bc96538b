// From a tar archive to the rows of its samples.
#ifndef FEEDD_DAEMON_SOURCE_TAR_SCAN_H
#define FEEDD_DAEMON_SOURCE_TAR_SCAN_H

#include "daemon/source/tar_fields.h"

struct tar_archive {
    int fd;
    uint64_t bytes; // of the file
    uint32_t file;  // its number in the dataset
    // Results.
    struct index_rows rows;
    struct error error;
};

// Finds all samples of all archives, in several threads. Fills every archive's results, but those after one that fails
// may be left out.
void tar_scan(const struct tar_fields *fields, struct tar_archive *archives, uint32_t count);

#endif
