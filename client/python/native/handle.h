// A libfeed handle that many threads share, and leases on its batches that are counted: without Python, so that the
// last holder of a batch may let it go in any thread, without the interpreter's lock, also after the interpreter is
// gone.
//
// Threads: all of this may be called from any thread. `lock` is held while libfeed works on the handle, which includes
// copies from a GPU and a try to attach again to a daemon that was lost (2 s at most, on a GPU 10 s); never while
// somebody waits for a batch, and never while the interpreter's lock is asked for. Who drops the last reference of a
// lease does not wait for `lock`: the lease is put on a list, and given back by whoever holds `lock` or takes it next.
// Fork: in a child, a handle is not used any more; what it holds stays the parent's.
#ifndef FEEDD_CLIENT_PYTHON_NATIVE_HANDLE_H
#define FEEDD_CLIENT_PYTHON_NATIVE_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "client/feed.h"

#define HANDLE_TEXT_BYTES 512
// Of lease.waiting_stream alone; no word of libfeed's, whose FEED_NO_STREAM has the same value.
#define LEASE_NO_STREAM_WAITS ((void *)-1)

struct lease {
    struct handle *handle;
    struct feed_batch batch;
    _Atomic uint32_t references;
    struct lease *next;   // on the list of those that are to be given back
    void *waiting_stream; // the last stream that waits for the batch, or LEASE_NO_STREAM_WAITS; under `lock`
};

struct handle {
    struct feed *feed;
    struct feed_description description; // as it was when the handle was opened
    pthread_mutex_t lock;
    _Atomic uint32_t references;
    _Atomic(struct lease *) returned;
    _Atomic uint32_t waiters;
    int wake_fd; // an eventfd: somebody returned a lease while another waits for a batch
    atomic_bool forked;
    LIST_ENTRY(handle) link;
};

// Opens a feed. On failure *handle is NULL, `text` says why, and the code of feed_open() is returned.
int handle_open(struct handle **handle, const struct feed_options *options, char text[HANDLE_TEXT_BYTES]);
// One more reference, and one less: the last closes the feed, which on a GPU waits for all work queued there. Leases
// hold one each.
struct handle *handle_get(struct handle *handle);
void handle_put(struct handle *handle);

// The next batch; waits at most `wait_ms` and returns early with -EINTR for a signal. What feed_next() returns, with a
// sentence in `text` for what is negative; none for a batch that is late from a daemon that is there. *lease belongs
// to the caller, with one reference.
int handle_next(struct handle *handle, struct lease **lease, int wait_ms, char text[HANDLE_TEXT_BYTES]);

// Gives back what was returned on a GPU and waits for the next handle_next().
void handle_settle(struct handle *handle);

struct order_place {
    uint64_t epoch;
    uint64_t consumed; // samples of all ranks in that epoch
};

// The resume token of a place, or with NULL of where the next batch stands. 0, or a negative errno and a sentence.
int handle_token(struct handle *handle, const struct order_place *place, char token[FEED_TOKEN_BYTES],
                 char text[HANDLE_TEXT_BYTES]);

// One more reference.
struct lease *lease_get(struct lease *lease);
// Gives the batch back when this was the last reference: on a GPU, when all work is done that the process has queued
// there until then, on whatever stream.
void lease_put(struct lease *lease);

// What is queued on `stream` from here on sees the batch. These three: 0, or a negative errno and a sentence.
int lease_wait(struct lease *lease, void *stream, char text[HANDLE_TEXT_BYTES]);
// A field's bytes, copied to host memory; waits for them.
int lease_fetch(struct lease *lease, uint32_t field, void *to, char text[HANDLE_TEXT_BYTES]);
// Which samples of the dataset the batch holds, `count` of them.
int lease_samples(struct lease *lease, int64_t *samples, char text[HANDLE_TEXT_BYTES]);

#endif
