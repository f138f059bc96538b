// Which reader a loader uses, and why: numbers in the statistics region (stats_loader.reader, .reader_reason), and what
// they are called. Numbers are never reused; new ones are added at the end.
#ifndef FEEDD_SHM_READER_KIND_H
#define FEEDD_SHM_READER_KIND_H

#include <stdint.h>

enum reader_kind {
    READER_NONE,
    READER_URING_FIXED,
    READER_URING,
    READER_MAPPED,
    READER_PREAD
};

enum reader_reason {
    REASON_NONE,
    REASON_CONFIGURED,      // io = ... says so
    REASON_COLD,            // auto: the data is not in the page cache
    REASON_RESIDENT,        // auto: it is
    REASON_URING_FORBIDDEN, // EPERM
    REASON_URING_MISSING,   // ENOSYS
    REASON_MEMLOCK,         // buffers could not be registered: RLIMIT_MEMLOCK
    REASON_URING_FAILED,    // any other error at set-up
    REASON_DELAY,           // io_delay_us needs io_uring's timers
    REASON_UNKNOWN,         // auto: there is no way to ask what is resident
    REASON_LARGE,           // auto: larger than mapped_limit
    REASON_DIRECT,          // io_direct = yes
    REASON_UNMAPPED,        // mapped, but some files cannot be mapped
    REASON_FOLDER,          // auto: each file is opened when it is read
};

// "?" for a number that is neither, as may be found in shared memory.
const char *reader_kind_name(uint32_t kind);
const char *reader_reason_text(uint32_t reason);

#endif
