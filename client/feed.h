// libfeed: attach to feedd and be handed batches without a copy.
//
// Threads: a handle belongs to one thread at a time; different handles are independent. No global state, no signal
// handlers, no threads of its own. Nothing is logged and nothing exits the process. Errors: functions return 0 or a
// count on success and a negative errno on failure; feed_strerror() has the sentence. After -ECONNRESET, -EPROTO or
// any error the daemon sent, the handle delivers nothing more and is only good for feed_strerror(), feed_token() and
// feed_close(); batches already in hand stay readable until then. The memory of a consumer that was detached (-ETIME)
// is filled anew meanwhile: in host memory feed_batch_release() tells which batches were whole to the end. On a GPU it
// cannot: work that is still queued then may read other data, also that of batches which were released before.
// Fork: a handle does not survive fork() in the child, which may only feed_close() it. One on a GPU not even that:
// CUDA cannot be used after a fork.
//
// GPUs: with a `device`, batches lie in GPU memory and are used on CUDA streams of the process's primary context,
// which is the one of the CUDA runtime and of PyTorch. The CPU waits for no GPU: feed_batch_wait() lets a stream wait
// for a batch, feed_batch_release() gives the batch back when a stream gets there. The memory is mapped read-only: a
// kernel that writes to it faults.
#ifndef FEED_H
#define FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FEED_MAX_FIELDS 16
#define FEED_MAX_DIMS   8

enum feed_dtype {
    FEED_BOOL = 1,
    FEED_U8 = 2,
    FEED_I8 = 3,
    FEED_U16 = 4,
    FEED_I16 = 5,
    FEED_U32 = 6,
    FEED_I32 = 7,
    FEED_U64 = 8,
    FEED_I64 = 9,
    FEED_F16 = 10,
    FEED_BF16 = 11,
    FEED_F32 = 12,
    FEED_F64 = 13,
    FEED_C64 = 14,
    FEED_C128 = 15,
};

struct feed; // a consumer's handle

// Zero-initialise, then set what matters. Strings are copied.
struct feed_options {
    const char *socket;  // NULL: $FEEDD_SOCKET, else /run/feedd/feedd.sock
    const char *dataset; // required
    uint32_t batch_size; // of this rank; required, 1..16777215
    bool shuffle;
    bool drop_last;
    uint64_t seed;
    uint32_t rank;             // 0..world_size-1
    uint32_t world_size;       // 0 means 1
    uint32_t local_world_size; // ranks that attach to this daemon; 0 means world_size. Sizes the ring
    uint64_t epochs;           // the run ends after epoch epochs-1; 0: it never ends

    // NULL: a feed of one's own. A name: join the feed of that name, or make it. Feeds are named per user; all who
    // join must agree on dataset, batch_size, shuffle, drop_last, seed and world_size. Consumers of one rank each see
    // every batch of that rank from where they joined; different ranks split the global batches.
    const char *share;
    // Hold the first batch until that many consumers have joined; 0 means 1, more take a share.
    uint32_t wait_for;
    uint32_t prefetch;   // batches this consumer is ready to hold at once; 0: the daemon chooses
    uint32_t max_lag_s;  // who holds up a shared feed for longer is detached; 0: as the daemon is set
    uint64_t ring_bytes; // for a new feed, about, and at most 1024 batches; 0: the daemon chooses

    const char *resume; // a token from feed_token(), or NULL to begin at epoch 0
    // Where batches are wanted: NULL or "cpu" for host memory; "cuda", "cuda:1" as this process counts its GPUs, or a
    // GPU's UUID; "host:0" for a GPU that the daemon plays in host memory (simulated_gpus).
    const char *device;
    // Ranks of the job on that GPU, for which its pool has room; 0 means 1. Of four ranks on two GPUs each says 2.
    uint32_t device_world_size;
    const char *client_name; // shown by feedctl; NULL: the program's name
    int connect_timeout_ms;  // connecting and attaching together; 0: 30 s; negative: for ever

    // When the daemon is lost in mid-run (killed, restarted, upgraded), feed_next() connects again and goes on at
    // feed_token(): no sample is lost or given twice. It keeps trying for so long; 0: 60 s; negative: not at
    // all, then feed_next() says -ECONNRESET or -ESHUTDOWN.
    int reconnect_timeout_ms;

    // Asked at least ten times a second while feed_open() and feed_next() connect and attach: true ends that with
    // -EINTR, as for a signal whose handler has taken note of it. NULL: the timeouts alone end it.
    bool (*interrupted)(void *context);
    void *interrupted_context;
};

// One field of a batch: a C-contiguous little-endian array [count, shape...], read-only, aligned to 256 bytes.
struct feed_array {
    const char *name; // valid as long as the handle
    const void *data; // with a device: in GPU memory
    enum feed_dtype dtype;
    uint32_t dimensions;               // of the array, the batch axis included
    uint64_t shape[FEED_MAX_DIMS + 1]; // shape[0] is the batch's count
    size_t bytes;                      // of the whole array
};

// A lease on one batch. Plain data; the memory is valid until feed_batch_release() or feed_close().
struct feed_batch {
    uint32_t field_count;
    struct feed_array field[FEED_MAX_FIELDS];
    uint64_t count;   // samples in hand; 0 only for the last ranks of a tail shorter than world_size
    uint64_t skipped; // samples of this batch that could not be read and were left out (on_error = skip)
    uint64_t epoch;
    uint64_t index;          // global batch in the epoch
    uint64_t first_position; // of the first sample in the epoch's order
    bool last_of_epoch;
    uint32_t slot;       // which place of the ring; for feed_batch_release()
    uint64_t sequence;   // running number of this rank's batches
    uint32_t generation; // of the connection it came by
    uint64_t fill;       // of its place; for feed_batch_wait() and feed_batch_release()
};

// What a feed is made of; see feed_describe().
struct feed_description {
    const char *dataset;
    uint64_t samples;
    uint64_t batches_per_epoch; // of a whole epoch
    uint64_t fingerprint;
    uint32_t field_count;
    struct feed_array field[FEED_MAX_FIELDS]; // data is NULL; shape[0] is batch_size
    uint64_t start_epoch;                     // where this consumer began
    uint64_t start_consumed;
    uint32_t prefetch; // leases it may hold at once
    uint32_t slots;    // batches the ring, or the pool on the GPU, has room for
    uint64_t ring_bytes;
    const char *device;  // "cpu", or the GPU's UUID
    int device_number;   // as this process counts its GPUs; -1: host memory, also that of a simulated GPU
    uint64_t pool_bytes; // of GPU memory that those who share the feed there share; 0: host memory
};

// Connects, attaches and maps the ring. On failure *feed is still a handle (or NULL when out of memory), so that
// feed_strerror(*feed) can be printed; feed_close() it.
//   -ENOENT dataset or socket   -ECONNREFUSED no daemon   -EACCES permission   -EINVAL options   -ENOSPC no room for
//   the ring or the pool   -EBUSY a limit is reached   -EEXIST share options disagree   -ESTALE token of other data or
//   order   -ETIMEDOUT   -EINTR see `interrupted`   -EPROTO not a feedd, or another protocol version
//   with a device: -ENODEV no such GPU, or not visible here (CUDA_VISIBLE_DEVICES), or lost   -ENOTSUP no CUDA in this
//   build, no driver, too old a driver, or a GPU that cannot export memory   -ENOMEM GPU memory is out
//   -EOVERFLOW a batch of more than 256 MiB
int feed_open(struct feed **feed, const struct feed_options *options);

// The next batch. timeout_ms 0: do not wait for one; negative: for ever. While the daemon is lost, one try to attach
// again may take longer than timeout_ms: up to 2 s, on a GPU 10 s.
//   1 a batch   0 the run is over   -EAGAIN none in time   -ENOBUFS all `prefetch` leases are held: release one first
//   -ECONNRESET the daemon went away   -EINTR see `interrupted`   or the error that ended the feed (-EIO a sample
//   cannot be read, -ETIME this consumer lagged and was detached, -EIO or -ENODEV the GPU was lost, ...)
int feed_next(struct feed *feed, struct feed_batch *batch, int timeout_ms);

// GPU: what is queued on `stream` (a CUstream or cudaStream_t; NULL is the default stream) from here on sees the
// batch. Call it for each stream that uses the batch. Host memory: does nothing. -EINVAL if the batch is not held;
// -EIO the GPU is lost.
int feed_batch_wait(struct feed *feed, const struct feed_batch *batch, void *stream);

// Copies a field of a batch to host memory with room for its `bytes`, wherever it lies, and waits for that: for
// looking at data, not for speed.
int feed_batch_fetch(struct feed *feed, const struct feed_batch *batch, uint32_t field, void *to);

// Gives a lease back, in any order. GPU: the batch's memory may be filled anew when `stream` gets here; if several
// streams use it, let this one wait for the others first (cudaStreamWaitEvent). FEED_NO_STREAM: nothing queued uses
// it any more, as after a synchronisation. Host memory: `stream` is ignored. -EINVAL if it is not held.
// FEED_EVERY_STREAM: when all is done that this process has queued on the GPU until now, whatever the stream, for
// callers who do not know which ones used the batch (with a driver older than CUDA 12.5 the call waits for that);
// -EAGAIN, and still held, while a CUDA graph is captured, whose capture is spoilt.
#define FEED_NO_STREAM    ((void *)-1)
#define FEED_EVERY_STREAM ((void *)-2)
int feed_batch_release(struct feed *feed, const struct feed_batch *batch, void *stream);

// A descriptor that polls readable when feed_next() may have news. Level-triggered on the socket alone: before
// polling, call feed_next(feed, &batch, 0) until it says -EAGAIN. Owned by the handle; another one after a reconnect
// within feed_next(), and -1 while there is no connection: then call feed_next() again after a moment.
int feed_fd(const struct feed *feed);

// Where this consumer stands: after the last batch that feed_next() returned. `text` has room for
// FEED_TOKEN_BYTES. A new consumer, also of another world size, goes on from there.
#define FEED_TOKEN_BYTES 128
int feed_token(const struct feed *feed, char text[FEED_TOKEN_BYTES]);
// The same for another place: after `consumed` samples of all ranks in that epoch. -ERANGE: there are not so many.
int feed_token_at(const struct feed *feed, uint64_t epoch, uint64_t consumed, char text[FEED_TOKEN_BYTES]);

// Valid until feed_close().
const struct feed_description *feed_describe(const struct feed *feed);

// The dataset index of sample `i` (0 <= i < count) of a batch: what the order contract says stands there.
// -ERANGE outside; accounts for skipped samples.
int64_t feed_batch_sample(const struct feed *feed, const struct feed_batch *batch, uint64_t i);

// The last error of this handle, in one sentence; "" if none. Also for NULL (out of memory).
const char *feed_strerror(const struct feed *feed);

// Ends the session; all leases and mappings go. NULL is fine. GPU: waits until all work that this process has queued
// on the GPU is done, since nothing may use the memory afterwards.
void feed_close(struct feed *feed);

const char *feed_dtype_name(enum feed_dtype dtype);
size_t feed_dtype_bytes(enum feed_dtype dtype);
const char *feed_version(void);

#ifdef __cplusplus
}
#endif
#endif
