// How bytes get from files into a slot: one small interface, three implementations.
//   uring   io_uring; what must come from storage
//   mapped  copies from read-only maps; what lies in the page cache already
//   preadv  threads; where io_uring is forbidden
#ifndef FEEDD_DAEMON_LOADER_READ_READER_H
#define FEEDD_DAEMON_LOADER_READ_READER_H

#include <sys/uio.h>

#include "base/error.h"
#include "daemon/source/dataset.h"
#include "shm/reader_kind.h"
#include "shm/ring.h"

// A piece whose iov_base is reader_scratch holds bytes that nobody wants (a gap between fields or records); no such
// piece is longer than this.
#define READER_SCRATCH_BYTES 4096u
extern uint8_t reader_scratch[READER_SCRATCH_BYTES];

// Most bytes and pieces of one request.
#define READER_MAX_BYTES  (512u << 10)
#define READER_MAX_PIECES 1024u // IOV_MAX

// One read: `bytes` at `offset` of a file, into `pieces` one after another. Owned by the caller from submit until its
// completion is reported; the pieces are never changed. A request never straddles the end of a file.
// One cache line: there may be millions a second.
struct read_request {
    uint32_t file;
    uint32_t piece_count;
    uint64_t offset;
    uint32_t bytes;
    uint32_t done; // the reader's while submitted
    struct iovec *pieces;
    int32_t result;    // at completion: 0, or negative errno (-ENODATA: the file ended early)
    uint16_t attempts; // the caller's
    uint16_t segment;  // the planner's: see chunk.h
    void *chunk;       // the caller's
    uint32_t first_sample, sample_count; // which samples of the chunk it serves: see chunk.h
    union {
        struct read_request *next; // for lists, the reader's while submitted
        void *bounce;              // the reader's
    };
};

struct reader {
    enum reader_kind kind;
    // Starts a read. Returns 0; the request is reported by reap in any order, possibly much later. -EBUSY and nothing
    // done when `depth` requests are in flight.
    int (*submit)(struct reader *reader, struct read_request *request);
    // Pushes what was submitted to the kernel and collects completions into a list; waits for at least one, at most
    // timeout_ms, if any is in flight. Returns the list (NULL: none).
    struct read_request *(*reap)(struct reader *reader, int timeout_ms);
    // Cancels what can be cancelled, waits for the rest, and frees the reader. Requests in flight are not reported;
    // they and their memory are the caller's again.
    void (*close)(struct reader *reader);
    uint32_t in_flight;     // submitted and not yet reported
    uint32_t depth;         // most requests in flight
    uint64_t reads;         // operations issued so far, continuations included
    uint64_t storage_bytes; // asked for by them, padding of direct reads included
};

struct reader_options {
    const struct dataset_layout *layout;
    const struct ring *ring; // registered as fixed buffers; may be NULL
    int first_fd;            // file i is descriptor first_fd + i
    uint32_t depth;
    uint32_t delay_us;    // added to every request's read: plan without merging (chunk.h)
    uint64_t table_bytes; // page tables that the mapped reader may add, about
    int life_fd;          // registered with io_uring among its files: see HERITAGE_LIFE; -1: none
};

// *reason is REASON_NONE or why buffers could not be registered (READER_URING); on failure why there is no io_uring.
int reader_open_uring(const struct reader_options *options, struct reader **reader,
                      enum reader_reason *reason, struct error *error);
// -ENOTSUP with delay_us, and for more files than one process may map.
int reader_open_mapped(const struct reader_options *options, struct reader **reader, struct error *error);
int reader_open_pread(const struct reader_options *options, struct reader **reader, struct error *error);

#endif
