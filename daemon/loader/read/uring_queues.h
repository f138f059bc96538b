// One io_uring: its queues and what is registered with it. A reader makes its own, or is lent one that was made earlier
// and outlives it: a confined loader can make none.
#ifndef FEEDD_DAEMON_LOADER_READ_URING_QUEUES_H
#define FEEDD_DAEMON_LOADER_READ_URING_QUEUES_H

#include <liburing.h>

#include "daemon/loader/read/reader.h"
#include "daemon/loader/read/request.h"
#include "daemon/loader/read/uring_buffers.h"

struct uring_queues {
    struct io_uring uring;
    struct uring_buffers buffers;
    bool fixed_files;                  // files are registered under their index
    uint32_t first_place, place_count; // in the table of files, for files of folders (folder_chain.h)
    uint32_t prepared; // made for so many reads, with nothing registered yet; 0: they were not
    bool restricted;   // the kernel refuses everything but what the reader asks of it
    int err;           // negative: there are no queues, and why
};

// Makes queues for `depth` reads at a time before it is known of what. Without them, uring_queues_open makes its own.
void uring_queues_prepare(struct uring_queues *queues, uint32_t depth, bool restrict_them);

// queues->err says whether they can be used. With `restrict_them`, they can do nothing but read, wait and cancel, and,
// for a folder, open and close files, if the kernel supports that; and of all registrations, only those of
// queues->buffers are still possible. `queues` are zeros, or prepared in the same way.
void uring_queues_open(struct uring_queues *queues, const struct reader_options *options, bool restrict_them);

// What to say of queues->err.
enum reader_reason uring_queues_reason(int err);

static inline enum reader_kind uring_queues_kind(const struct uring_queues *queues) {
    return uring_buffers_are_complete(&queues->buffers) ? READER_URING_FIXED : READER_URING;
}

// Fills an entry that reads the rest of a request from a descriptor or, with `fixed_file`, from a registered file.
void uring_queues_ask(const struct uring_queues *queues, struct io_uring_sqe *entry, int fd, bool fixed_file,
                      const struct request_rest *rest);

// Harmless if they could not be opened.
void uring_queues_close(struct uring_queues *queues);

#endif
