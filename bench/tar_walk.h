// From header to header of a tar archive, with one system call for each: what no program that finds all members can do
// without. It checks nothing, and knows only archives in which no header extends another.
#ifndef FEEDD_BENCH_TAR_WALK_H
#define FEEDD_BENCH_TAR_WALK_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#define TAR_WALK_BLOCK 512u

struct tar_walk {
    uint64_t members; // that are files
    uint64_t bytes;   // of theirs
};

static inline uint64_t tar_walk_octal(const uint8_t *digits, uint32_t count) {
    uint64_t number = 0;
    for (uint32_t i = 0; i < count && digits[i] >= '0' && digits[i] <= '7'; i++)
        number = number << 3 | (uint64_t)(digits[i] - '0');
    return number;
}

// Adds the archive's members to what `walk` has. A negative errno if it cannot be read.
static inline int tar_walk(int fd, struct tar_walk *walk) {
    uint8_t header[TAR_WALK_BLOCK];
    for (uint64_t at = 0;;) {
        ssize_t got = pread(fd, header, sizeof header, (off_t)at);
        if (got < 0)
            return -errno;
        if ((size_t)got < sizeof header || !header[0])
            return 0;
        const uint64_t bytes = tar_walk_octal(header + 124, 12);
        const uint8_t type = header[156];
        if (type == '0' || !type) {
            walk->members++;
            walk->bytes += bytes;
        }
        at += TAR_WALK_BLOCK + (bytes + TAR_WALK_BLOCK - 1) / TAR_WALK_BLOCK * TAR_WALK_BLOCK;
    }
}

#endif
