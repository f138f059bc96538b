// How bytes get from files into a slot: one small interface, several implementations (readers.h).
#ifndef FEEDD_DAEMON_LOADER_READ_READER_H
#define FEEDD_DAEMON_LOADER_READ_READER_H

#include <sys/uio.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/dataset/dataset.h"
#include "daemon/dataset/folder_file.h"
#include "shm/reader_kind.h"
#include "shm/ring.h"

// A piece whose iov_base is reader_scratch is discarded (a gap between fields or records). No such piece is longer than
// this.
#define READER_SCRATCH_BYTES 4096u
extern uint8_t reader_scratch[READER_SCRATCH_BYTES];

// Most bytes and pieces of one request.
#define READER_MAX_BYTES  (512u << 10)
#define READER_MAX_PIECES 1024u // IOV_MAX

// One read: `bytes` at `offset` of a file, into `pieces` one after another. The reader owns it from submit until its
// completion is reported, and never changes the pieces. A request never straddles the end of a file.
// One cache line: there may be millions per second.
struct read_request {
    uint32_t file; // its number: dataset_file_numbers
    uint32_t piece_count;
    uint64_t offset;
    uint32_t bytes;
    uint32_t done; // the reader's while submitted
    struct iovec *pieces;
    int32_t
        result; // at completion: 0, or negative errno (-ENODATA: the file ended early); before, the reader's
    uint8_t attempts;                    // the caller's
    bool lacks : 1;                      // the caller's: the last attempt failed for a lack
    bool finished : 1;                   // the caller's: its completion was reported
    uint16_t segment;                    // the planner's: see chunk.h
    void *chunk;                         // the caller's
    uint32_t first_sample, sample_count; // which samples of the chunk it serves: see chunk.h
    union {
        struct read_request *next; // for lists, the reader's while submitted
        void *bounce;              // the reader's
    };
};

_Static_assert(sizeof(struct read_request) == 64, "a cache line");

// What is known of a request's file before it is opened: all files of folders are alike.
static inline const struct dataset_file *read_request_file(const struct dataset_layout *layout,
                                                           const struct read_request *request) {
    return &layout->files[min_u64(request->file, dataset_plain_files(layout))];
}

struct reader {
    enum reader_kind kind;
    // Starts a read and returns 0; reap reports requests in any order, possibly much later. -EBUSY, and nothing is
    // done, when `depth` requests are in flight.
    int (*submit)(struct reader *reader, struct read_request *request);
    // Pushes what was submitted to the kernel and returns a list of the completed requests (NULL: none). If any is in
    // flight, waits for at least one, for at most timeout_ms.
    struct read_request *(*reap)(struct reader *reader, int timeout_ms);
    // Closes files that a reader has kept open though no request in flight needs them. To be called several times per
    // second, whether or not there is anything to read. NULL: it keeps none.
    void (*rest)(struct reader *reader);
    // Cancels what can be cancelled, waits for the rest, and frees the reader. Requests in flight are not reported;
    // they and their memory belong to the caller again.
    void (*close)(struct reader *reader);
    // Does a little of what makes later reads cheaper, if it is time for that, and keeps `kind` and `reason` true.
    // `idle`: the caller has nothing to read. False: there is nothing to do now. NULL: there never is.
    bool (*settle)(struct reader *reader, uint64_t now, bool idle);
    uint32_t in_flight;        // submitted and not yet reported
    uint32_t depth;            // most requests in flight
    uint64_t reads;            // operations issued so far, continuations included
    uint64_t storage_bytes;    // asked for by them, padding of direct reads included
    enum reader_reason reason; // REASON_NONE, or what has turned out since it was opened
};

struct uring_queues;

struct reader_options {
    const struct dataset_layout *layout;
    const struct ring *ring;   // to be registered as fixed buffers; may be NULL
    struct folder_set folders; // that files are to be opened in
    int first_fd;              // file i is descriptor first_fd + i
    uint32_t depth;
    uint32_t delay_us;           // added to every request's read: plan without merging (chunk.h)
    uint64_t table_bytes;        // page tables that the mapped reader may add, approximately
    int life_fd;                 // registered with io_uring among its files: see HERITAGE_LIFE; -1: none
    struct uring_queues *queues; // lent to the io_uring reader; NULL: it makes its own
    // Where a reader names the file first, when it may wait for storage in the caller's thread: stats_loader.read_file;
    // NULL: nowhere.
    _Atomic uint32_t *read_file;
};

// Opens a reader. *reason is REASON_NONE on entry; if the reader is not quite what was asked for, it says why. Each
// reader has a header of its own; readers.h has them all.
typedef int reader_open(const struct reader_options *options, struct reader **reader,
                        enum reader_reason *reason, struct error *error);

#endif
