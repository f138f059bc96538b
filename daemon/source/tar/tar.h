// Reads the headers of tar archives: old tar, ustar, pax, and the long names of GNU tar.
//
// Archives may be hostile: every number is checked against the file's size, and memory is bounded. Nothing is
// extracted, so the names of members are just text.
#ifndef FEEDD_DAEMON_SOURCE_TAR_TAR_H
#define FEEDD_DAEMON_SOURCE_TAR_TAR_H

#include "base/error.h"

#define TAR_NAME 4096u // bytes of a name at most, with its 0
// Read at once where all of it is needed: a pax header, its records, and the header after it. More would touch more
// pages of archives with large members; of these, only headers are read.
#define TAR_WINDOW 1536u

struct tar_member {
    const char *name; // until the next call
    uint64_t offset;  // of its bytes in the archive; they lie in the file
    uint64_t bytes;
};

// One thread at a time.
struct tar {
    int fd;           // the caller's
    uint64_t bytes;   // of the file
    uint64_t at;      // offset of the next header
    bool simply_ends; // the end was reached, and it has no block of zeros
    uint64_t window_at, window_bytes;
    uint32_t wide;              // windows that are yet to be read in full
    uint8_t window[TAR_WINDOW]; // what was read last
    char name[TAR_NAME];
};

void tar_start(struct tar *tar, int fd, uint64_t bytes);

// The next regular file in the archive; links, folders and the like are passed over. 1; 0 at the end of the archive; or
// a negative errno and a sentence. `error` is not NULL, here and below.
int tar_next(struct tar *tar, struct tar_member *member, struct error *error);

// `count` bytes (at most TAR_WINDOW) at `offset`, valid until the next call; NULL and a sentence if they cannot be
// read.
const uint8_t *tar_bytes(struct tar *tar, uint64_t offset, uint64_t count, struct error *error);

#endif
