// libfeed: attach to feedd and receive batches without a copy.
//
// Threads: a handle belongs to one thread at a time; different handles are independent. There is no global state, no
// signal handler and no hidden thread. Nothing is logged, and nothing exits the process.
//
// Errors: functions return 0 or a count on success and a negative errno on failure; feed_strerror() has the sentence.
// After -ECONNRESET, -EPROTO or any error that the daemon sent, the handle delivers nothing more and is only good for
// feed_strerror(), feed_token() and feed_close(); batches already in hand stay readable until then. If the daemon is
// still running and closes the feed, it frees their memory 10 s after the error. From then on they read as zeros, and
// in host memory feed_batch_release() reports that with -ETIME. Each page read then takes a new page from
// /dev/shm; if that is full, the kernel raises SIGBUS instead. libfeed itself then reads this memory only in
// feed_batch_fetch(). Batches that you have kept for that long should be released, not read.
//
// Detaching: when the daemon detaches a slow consumer (-ETIME), it reuses the consumer's memory at once. In host
// memory feed_batch_release() says which batches were intact to the end. On a GPU it cannot: work that is still
// queued may read other data, even in place of batches that were released before.
//
// Fork: a forked child may only call feed_close() on a handle that it inherits. On a GPU it must not even do that,
// because CUDA does not work after a fork: it may only close(feed_fd()). As long as a child keeps that descriptor
// open, the daemon does not notice that the parent died.
//
// GPUs: with a `device`, batches lie in GPU memory and are used on CUDA streams of the process's primary context, the
// one that the CUDA runtime and PyTorch use. The CPU never waits for the GPU: feed_batch_wait() makes a stream wait
// for a batch, and feed_batch_release() gives the batch back when a stream gets there. The memory is mapped read-
// only: a kernel that writes to it faults.
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

// Zero-initialise it, then set what matters. Strings are copied.
struct feed_options {
    const char *socket;  // NULL: $FEEDD_SOCKET, else /run/feedd/feedd.sock
    const char *dataset; // required
    uint32_t batch_size; // of this rank; required, 1..16777215
    bool shuffle;
    bool drop_last;
    uint64_t seed;
    uint32_t rank;             // 0..world_size-1
    uint32_t world_size;       // 0 means 1
    uint32_t local_world_size; // ranks that attach to this daemon: sizes the ring; 0 means world_size
    uint64_t epochs;           // the run ends after epoch epochs-1; 0: it never ends

    // NULL: a private feed. A name: join the feed of that name, or create it. Each user has names of their own. All
    // that join must agree on dataset, batch_size, shuffle, drop_last, seed and world_size. Consumers of one rank
    // each see every batch of that rank from where they joined; different ranks split the global batches.
    const char *share;
    // Hold the first batch back until this many consumers have joined; 0 means 1. More than one needs a share.
    // The first consumer decides. If it leaves before the first batch, the feed waits for at most the highest
    // number that any remaining consumer asks for.
    uint32_t wait_for;
    uint32_t prefetch;   // batches this consumer can hold at once; 0: the daemon chooses
    uint32_t max_lag_s;  // a consumer that holds up others for longer is detached; 0: the daemon's setting
    uint64_t ring_bytes; // rough size of a new feed's ring, 1024 batches at most; 0: the daemon chooses

    const char *resume; // a token from feed_token(), or NULL to begin at epoch 0
    // Where to deliver batches: NULL or "cpu" for host memory; "cuda" or "cuda:1", as this process numbers its GPUs,
    // or a GPU's UUID; "host:0" for a GPU simulated in host memory (simulated_gpus in feedd.conf).
    const char *device;
    // Ranks of the job that use this GPU; its pool has room for them. 0 means 1. With four ranks on two GPUs it is 2.
    uint32_t device_world_size;
    const char *client_name; // shown by feedctl; NULL: the program's name
    // For connecting and attaching together; 0: 30 s, and with a GPU 120 s more for the daemon to open it; negative:
    // indefinitely. If the daemon stops meanwhile, feed_open() looks for the next one until then, unless
    // reconnect_timeout_ms says not to, or for less long. It then returns -EAGAIN if the index of the dataset is still
    // being built.
    int connect_timeout_ms;

    // When the daemon is lost mid-run (killed, restarted, upgraded), feed_next() reconnects and continues at
    // feed_token(): no sample is lost or delivered twice. This is how long it keeps trying; 0: 60 s; negative: it
    // does not reconnect but returns -ECONNRESET or -ESHUTDOWN, as does feed_open(). Consumers that share a feed wait
    // for each other, for 5 s at most; one that returns later, but within max_lag_s, takes the others back, and they
    // wait until it has caught up. Returning consumers get -ESTALE only if a new consumer attached first
    // and began the feed with other boundaries of global batches.
    int reconnect_timeout_ms;

    // Called at least ten times per second while feed_open() and feed_next() connect and attach. If it returns true,
    // they return -EINTR: for programs whose signal handlers only set a flag. NULL: only the timeouts end the wait.
    bool (*interrupted)(void *context);
    void *interrupted_context;
};

// The samples of a dataset that a feed is over, chosen by the program. It is the counterpart of a [view NAME] in
// feedd.conf, and gives the same samples in the same order. The daemon keeps it for this user alone, as long as it
// is in use; consumers that bring the same view share it, and only one of them sends the numbers.
enum feed_view_kind {
    FEED_RANGE = 1,   // `begin` to `end` of the samples as they are stored
    FEED_SPLIT = 2,   // ... of a random permutation of them, which `seed` makes
    FEED_INDICES = 3, // the samples with these numbers, in this order
    FEED_WEIGHTS = 4, // samples drawn at random, with replacement, by these weights, one for each sample
};

// Zero-initialise it, then set what matters.
struct feed_view {
    size_t bytes; // sizeof(struct feed_view): later versions may have more
    enum feed_view_kind kind;
    uint32_t begin, end; // of a range or split, in millionths of the samples; `end` itself is not included
    uint64_t seed;       // of a split
    // For indices or weights: `count` integers (or floats, for weights), one after another, at most 134217728. They
    // are copied, 8 bytes for each, since a restarted daemon has to be given them again. With integers here, a range
    // or split takes a part of that list, as if the list were a dataset; with NULL, a part of the dataset.
    const void *data;
    uint64_t count;
    enum feed_dtype dtype;
    // For weights: draws in an epoch; 0: as many as there are weights or, with `part`, sample numbers in the part.
    uint64_t epoch_samples;
    // For weights: a view of another kind, from whose samples all draws are made; NULL: from all samples. In any case,
    // there is one weight for each sample of the dataset. A sample that is in the part twice counts twice. The part is
    // copied, too: 4 bytes for each weight, and none for its numbers.
    const struct feed_view *part;
};

// One field of a batch: a C-contiguous little-endian array [count, shape...], read-only, aligned to 256 bytes.
//
// A ragged field, whose samples differ in length, has the values of all samples, one after another, in an array of one
// dimension. Those of sample i are values offsets[i] up to, but not including, offsets[i + 1]. libfeed checks that the
// values lie in the slot. The offsets are bytes like those of any field: a loader that malicious data has taken over
// can write anything there, so a program that must survive that has to check a copy of them.
struct feed_array {
    const char *name; // valid as long as the handle
    const void *data; // with a device: in GPU memory
    enum feed_dtype dtype;
    uint32_t dimensions; // of the array, the batch axis included
    uint64_t
        shape[FEED_MAX_DIMS + 1]; // shape[0] is the batch's count; for a ragged field, its number of values
    size_t bytes;                 // of the whole array
    bool ragged;
    const int64_t *offsets; // for a ragged field: count + 1 of them, the first 0; where `data` is; else NULL
};

// A lease on one batch. Plain data; the arrays are valid until feed_batch_release() or feed_close().
struct feed_batch {
    uint32_t field_count;
    struct feed_array field[FEED_MAX_FIELDS];
    uint64_t count;   // samples; 0 only for the last ranks of a final batch smaller than world_size
    uint64_t skipped; // samples that could not be read and were left out (on_error = skip)
    uint64_t epoch;
    uint64_t index;          // global batch in the epoch
    uint64_t first_position; // of the first sample in the epoch's order
    bool last_of_epoch;
    uint32_t slot;       // of the ring; for feed_batch_release()
    uint64_t sequence;   // number of the batch among those of this rank
    uint32_t generation; // counts reconnects
    uint64_t fill;       // of the slot; for feed_batch_wait() and feed_batch_release()
};

// Describes a feed; see feed_describe().
struct feed_description {
    const char *dataset;
    uint64_t samples;
    uint64_t batches_per_epoch; // of a full epoch
    uint64_t fingerprint;
    uint32_t field_count;
    struct feed_array field[FEED_MAX_FIELDS]; // data is NULL; shape[0] is batch_size
    uint64_t start_epoch;                     // where this consumer began
    uint64_t start_consumed;
    uint32_t prefetch; // leases that this consumer may hold at once; a reconnect keeps them if memory allows
    uint32_t slots;    // batches that fit into the ring, or into the pool on the GPU
    uint64_t ring_bytes;
    const char *device;  // "cpu", or the GPU's UUID
    int device_number;   // as this process numbers its GPUs; -1: host memory, also for a simulated GPU
    uint64_t pool_bytes; // of GPU memory, shared by the feed's consumers on this GPU; 0: host memory
};

// Connects, attaches and maps the ring. On failure *feed is still a handle (or NULL when out of memory), so that
// feed_strerror(*feed) can be printed; feed_close() it.
//   -ECONNREFUSED no daemon listens on the socket, or there is no such socket   -ENOENT no such dataset
//   -EACCES this user may not connect, or may not use the dataset   -EINVAL options
//   -ENOSPC no room for the ring or the pool   -EBUSY a limit is reached
//   -EEXIST the feed of that share name has other options   -ESTALE the token is of other data or another order
//   -ETIMEDOUT   -EINTR see `interrupted`   -EPROTO not a feedd, or another protocol version
//   -ECONNRESET, -ESHUTDOWN the daemon stops, or accepts no new consumers (feedctl drain)
//   with a device: -ENODEV no such GPU, or not visible here (CUDA_VISIBLE_DEVICES), or lost   -ENOTSUP a build without
//   CUDA, no driver, a driver that is too old, or a GPU that cannot export memory   -ENOMEM out of GPU memory
//   -EOVERFLOW batches of more than 256 MiB
int feed_open(struct feed **feed, const struct feed_options *options);

// The same over a view of options->dataset, which must not be a view itself; NULL: over all of it. Also
//   -EINVAL the view   -ERANGE a sample number that the dataset does not have, or a weight that is not a finite number
//   or is below 0   -EFBIG too many numbers   -ENOSPC no room for the view (view_memory, user_view_memory)
int feed_open_view(struct feed **feed, const struct feed_options *options, const struct feed_view *view);

// The next batch. timeout_ms 0: do not wait for one; negative: wait indefinitely. While the daemon is lost, one attempt
// to attach again may exceed timeout_ms: it takes up to 2 s, on a GPU 10 s, and longer if the numbers of a view have to
// be sent again.
//   1 a batch   0 the run is over   -EAGAIN none in time   -ENOBUFS all `prefetch` leases are held: release one first
//   -ECONNRESET the daemon went away   -EINTR see `interrupted`   or the error that ended the feed (-EIO a sample
//   cannot be read, -ETIME this consumer lagged and was detached, -ENOENT or -EACCES the daemon came back without the
//   dataset, or with it for others, -ESTALE it came back with other data, or the shared feed has moved on without this
//   consumer, -EIO or -ENODEV the GPU was lost, ...)
int feed_next(struct feed *feed, struct feed_batch *batch, int timeout_ms);

// GPU: makes work that is queued on `stream` (a CUstream or cudaStream_t; NULL is the default stream) after this call
// wait for the batch. Call it for each stream that uses the batch. Host memory: does nothing. -EINVAL if the batch is
// not held; -EIO the GPU is lost.
int feed_batch_wait(struct feed *feed, const struct feed_batch *batch, void *stream);

// Copies a field of a batch from wherever it lies to host memory with room for its `bytes`, and waits for that: for
// inspecting data, not for speed.
int feed_batch_fetch(struct feed *feed, const struct feed_batch *batch, uint32_t field, void *to);
// The same for the count + 1 offsets of a ragged field; -EINVAL for another one.
int feed_batch_fetch_offsets(struct feed *feed, const struct feed_batch *batch, uint32_t field, int64_t *to);

// Releases a lease, in any order. Host memory: `stream` is ignored. -EINVAL if the batch is not held.
// GPU: the batch's memory may be reused when `stream` gets here; if several streams use it, make this one wait for
// the others first (cudaStreamWaitEvent). FEED_NO_STREAM: no queued work uses the batch any more, as after a
// synchronisation. FEED_EVERY_STREAM: when all work is done that this process has queued on the GPU so far, on any
// stream, for callers that do not know which streams used the batch. With a driver older than CUDA 12.5 the call
// waits for that work. -EAGAIN while a CUDA graph is being captured: the batch is still held, and the capture is
// invalidated.
#define FEED_NO_STREAM    ((void *)-1)
#define FEED_EVERY_STREAM ((void *)-2)
int feed_batch_release(struct feed *feed, const struct feed_batch *batch, void *stream);

// A descriptor that polls readable when feed_next() may have news. It shows only what is on the socket, level-
// triggered: before polling, call feed_next(feed, &batch, 0) until it returns -EAGAIN. The handle owns it. A
// reconnect within feed_next() changes it, and it is -1 while there is no connection: then call feed_next() again
// after a moment.
int feed_fd(const struct feed *feed);

// The position of this consumer: after the last batch that feed_next() returned. `text` has room for
// FEED_TOKEN_BYTES. A new consumer, even with another world size, can continue from it. -ENOTCONN if the handle
// never attached.
#define FEED_TOKEN_BYTES 8448
int feed_token(const struct feed *feed, char text[FEED_TOKEN_BYTES]);
// The same for another position: after `consumed` samples of all ranks in that epoch. -ERANGE: it has fewer samples.
int feed_token_at(const struct feed *feed, uint64_t epoch, uint64_t consumed, char text[FEED_TOKEN_BYTES]);

// Valid until feed_close(); a reconnect updates it.
const struct feed_description *feed_describe(const struct feed *feed);

// The number in the dataset of sample `i` (0 <= i < count) of a batch, which follows from the order alone; skipped
// samples are accounted for, and replaced ones (on_error = replace) are named as if they stood there. In a view it is
// the number in the view; in one that draws by weight, and in a mix, the position in the epoch.
// -ERANGE outside of the batch; if samples were skipped, -EINVAL for a batch that is no longer held, and -ETIME if
// its memory has been reused or freed.
int64_t feed_batch_sample(const struct feed *feed, const struct feed_batch *batch, uint64_t i);

// The last error of this handle, in one sentence; "" if none. Also for NULL (out of memory).
const char *feed_strerror(const struct feed *feed);

// Disconnects and frees the handle; all leases and mappings end. NULL is fine. GPU: first waits until all work that
// this process has queued on the GPU is done, since nothing may use the memory afterwards.
void feed_close(struct feed *feed);

const char *feed_dtype_name(enum feed_dtype dtype);
size_t feed_dtype_bytes(enum feed_dtype dtype);
const char *feed_version(void);

#ifdef __cplusplus
}
#endif
#endif
