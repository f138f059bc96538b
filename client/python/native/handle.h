// A libfeed handle that threads share, and reference-counted leases on its batches. This does not use Python, so that
// the last holder of a batch may release it in any thread, without the interpreter's lock, even after the interpreter
// has ended.
//
// Threads: all of this may be called from any thread. `lock` is held while libfeed works on the handle, which includes
// copies from a GPU and an attempt to attach again to a daemon that was lost (2 s at most, on a GPU 10 s), but never
// while somebody waits for a batch. A thread that waits for `lock` does not hold the interpreter's lock. During an
// attempt to attach, the main thread asks for the interpreter's lock with `lock` held (feed_options.interrupted). No
// other thread may: the interpreter stops it there when it ends, and the thread would keep `lock`. A thread that drops
// the last reference of a lease does not wait for `lock`: it puts the lease on a list, and the thread that holds `lock`
// or takes it next gives the batch back.
// Fork: a child cannot use a handle; what the handle holds remains the parent's.
#ifndef FEEDD_CLIENT_PYTHON_NATIVE_HANDLE_H
#define FEEDD_CLIENT_PYTHON_NATIVE_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/un.h>

#include "client/feed.h"

#define HANDLE_TEXT_BYTES 512
// Only for lease.waiting_stream. It means something else than libfeed's FEED_NO_STREAM, which has the same value.
#define LEASE_NO_STREAM_WAITS ((void *)-1)

struct lease {
    struct handle *handle;
    struct feed_batch batch;
    _Atomic uint32_t references;
    struct lease *next;   // on the list of leases to give back
    void *waiting_stream; // the last stream that waits for the batch, or LEASE_NO_STREAM_WAITS; under `lock`
    int write_fault;      // what write_fault_add() returned for the batch
};

struct handle {
    struct feed *feed;
    struct feed_description
        description; // as it was when the handle was opened: for what a reconnect leaves as it is
    pthread_mutex_t lock;
    _Atomic uint32_t references;
    _Atomic(struct lease *) returned;
    _Atomic uint32_t waiters;
    int wake_fd;               // an eventfd: a lease was returned while another thread waits for a batch
    struct sockaddr_un daemon; // the other end of the socket, by which a child of a fork knows the socket
    atomic_bool forked;
    LIST_ENTRY(handle) link;
};

// Opens a feed over a view, or with NULL over the whole dataset. On failure *handle is NULL, `text` says why, and the
// code of feed_open_view() is returned.
int handle_open(struct handle **handle, const struct feed_options *options, const struct feed_view *view,
                char text[HANDLE_TEXT_BYTES]);
// Take and drop a reference. Dropping the last one closes the feed, which on a GPU waits for all work queued there.
// Each lease holds one.
struct handle *handle_get(struct handle *handle);
void handle_put(struct handle *handle);

// The next batch; waits at most `wait_ms` and returns early with -EINTR for a signal. Returns what feed_next() returns,
// with a sentence in `text` if that is negative, but an empty one if the daemon is there and the batch is merely late.
// *lease belongs to the caller, with one reference.
int handle_next(struct handle *handle, struct lease **lease, int wait_ms, char text[HANDLE_TEXT_BYTES]);

// Gives back leases that were returned on a GPU, without waiting for the next handle_next().
void handle_settle(struct handle *handle);

// False while the daemon is lost and handle_next() looks for it.
bool handle_is_connected(struct handle *handle);

// The feed as it is now: a reconnect may change what the daemon gives. Its pointers are valid as long as the handle.
void handle_describe(struct handle *handle, struct feed_description *description);

struct order_place {
    uint64_t epoch;
    uint64_t consumed; // samples of all ranks in that epoch
};

// The resume token of a place, or with NULL that of the next batch. 0, or a negative errno and a sentence.
int handle_token(struct handle *handle, const struct order_place *place, char token[FEED_TOKEN_BYTES],
                 char text[HANDLE_TEXT_BYTES]);

// Takes a reference.
struct lease *lease_get(struct lease *lease);
// Drops a reference. The last one gives the batch back: on a GPU, when all work is done that the process has queued
// there until then, on any stream.
void lease_put(struct lease *lease);

// These three return 0, or a negative errno and a sentence.
// Work that is queued on `stream` from here on sees the batch.
int lease_wait(struct lease *lease, void *stream, char text[HANDLE_TEXT_BYTES]);
// What an array is made of: a field of the batch, or the offsets of one that is ragged.
struct lease_part {
    uint32_t field;
    bool offsets;
};

// Offsets are an array of int64 with one dimension.
struct feed_array lease_array(const struct lease *lease, struct lease_part part);

// Copies the bytes of an array to host memory; waits for them.
int lease_fetch(struct lease *lease, struct lease_part part, void *to, char text[HANDLE_TEXT_BYTES]);
// The numbers in the dataset of the batch's `count` samples.
int lease_samples(struct lease *lease, int64_t *samples, char text[HANDLE_TEXT_BYTES]);

#endif
