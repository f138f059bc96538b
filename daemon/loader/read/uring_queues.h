// One io_uring: its queues and what is registered with it. A reader makes its own, or is lent one that was made earlier
// and outlives it: a confined loader can make none.
#ifndef FEEDD_DAEMON_LOADER_READ_URING_QUEUES_H
#define FEEDD_DAEMON_LOADER_READ_URING_QUEUES_H

#include <liburing.h>

#include "daemon/loader/read/reader.h"

struct uring_queues {
    struct io_uring uring;
    const uint8_t *fixed; // start of the registered buffers; NULL: none
    uint64_t fixed_bytes;
    bool fixed_files;                  // files are registered under their index
    uint32_t first_place, place_count; // in the table of files, for files of folders (folder_chain.h)
    uint32_t prepared; // made for so many reads, with nothing registered yet; 0: they were not
    bool restricted;   // the kernel refuses everything but what the reader asks of it
    int err;           // negative: there are no queues, and why
};

// Makes queues for `depth` reads at a time before it is known of what. Without them, uring_queues_open makes its own.
void uring_queues_prepare(struct uring_queues *queues, uint32_t depth, bool restrict_them);

// queues->err says whether they can be used. With `restrict_them`, they can do nothing but read, wait and cancel, and,
// for a folder, open and close files, if the kernel supports that. `queues` are zeros, or prepared in the same way.
void uring_queues_open(struct uring_queues *queues, const struct reader_options *options, bool restrict_them);

// What to say of queues->err.
enum reader_reason uring_queues_reason(int err);

// Harmless if they could not be opened.
void uring_queues_close(struct uring_queues *queues);

// Which registered buffer the memory lies in; -1: not in one.
int uring_queues_buffer(const struct uring_queues *queues, const void *memory, uint32_t bytes);

#endif
