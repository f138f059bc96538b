// One GPU as a process sees it. There are two implementations with the same table of operations: gpu_cuda*.c, in which
// only gpu_cuda_driver.h includes CUDA's headers, and gpu_host*.c, which simulates a GPU in host memory so that
// everything that uses a GPU can run and be tested on any machine.
//
// A GPU is always identified by its UUID ("GPU-53ce3473-78b4-0a9f-482c-b0ec960d2263"; simulated ones "HOST-0", "HOST-1"
// and so on); what "cuda:1" means depends on the user's environment. The CUDA driver is loaded at run time (dlopen,
// cuGetProcAddress), so programs also start without one.
//
// Threads: a handle belongs to one thread at a time. The thread's current CUDA context is left unchanged.
// Processes: a handle cannot be used in a process that was forked from the one that opened it; calls there fail.
// Errors: a negative errno and a sentence. -ENODEV: there is no such GPU, or this process cannot see it; -ENOTSUP: this
// build has no CUDA, there is no driver, it is too old, the GPU cannot export memory, or the process was forked;
// -ENOMEM: out of GPU or host memory; -EINVAL: a call or name that is wrong for any GPU; -EIO: anything else that the
// driver reports, such as a GPU or context that is lost.
#ifndef FEEDD_GPU_GPU_H
#define FEEDD_GPU_GPU_H

#include "base/error.h"

#define GPU_UUID_BYTES    48u // with the terminating 0
#define GPU_NAME_BYTES    64u
#define GPU_WORDS_MOST    64u          // in one gpu_write_words
#define GPU_REGISTER_MOST (256u << 20) // bytes in one gpu_host_register

typedef void *gpu_stream; // a CUstream; NULL is CUDA's default stream
typedef void *gpu_mark;   // a place in a stream, and when the GPU got there

// Memory on the GPU, mapped into this process.
struct gpu_memory {
    // the GPU's address, to be passed to kernels; for a simulated GPU, a pointer in this process
    uint64_t address;
    uint64_t bytes;
    uint64_t handle; // the implementation's
};

struct gpu_word {
    uint64_t address; // as the GPU sees it, a multiple of 8
    uint64_t value;
};

struct finish_batch; // gpu/finish.h

struct gpu {
    const struct gpu_operations *operations;
    char uuid[GPU_UUID_BYTES];
    char name[GPU_NAME_BYTES]; // "NVIDIA H200"
    uint64_t memory_bytes;
    int number;              // its ordinal in this process; -1: a simulated GPU
    void *module, *kernel;   // the implementation's, of gpu_finish; NULL until it is called
    struct gpu_watch *watch; // the owner's; NULL: none
};

// Calls of a transfer process that wait for nothing but the driver, unlike gpu_call and the two that synchronize. Each
// can take minutes where many processes use the driver, since pinning memory holds its locks.
struct gpu_watch {
    void (*begins)(struct gpu_watch *watch);
    void (*ended)(struct gpu_watch *watch);
};

struct gpu_operations {
    void (*close)(struct gpu *gpu);
    uint64_t (*round_up)(struct gpu *gpu, uint64_t bytes);
    int (*create)(struct gpu *gpu, uint64_t bytes, struct gpu_memory *memory, int *fd, struct error *error);
    int (*import)(struct gpu *gpu, int fd, uint64_t bytes, bool writable, struct gpu_memory *memory,
                  struct error *error);
    void (*free)(struct gpu *gpu, struct gpu_memory *memory);
    int (*host_register)(struct gpu *gpu, void *memory, uint64_t bytes, bool read_only, uint64_t *address,
                         struct error *error);
    void (*host_unregister)(struct gpu *gpu, void *memory);
    int (*stream_create)(struct gpu *gpu, gpu_stream *stream, struct error *error);
    void (*stream_destroy)(struct gpu *gpu, gpu_stream stream);
    int (*copy_in)(struct gpu *gpu, gpu_stream stream, uint64_t to, const void *from, uint64_t bytes,
                   struct error *error);
    int (*copy_out)(struct gpu *gpu, void *to, uint64_t from, uint64_t bytes, struct error *error);
    int (*write_words)(struct gpu *gpu, gpu_stream stream, const struct gpu_word *words, uint32_t count,
                       struct error *error);
    int (*write_word_last)(struct gpu *gpu, const struct gpu_word *word, struct error *error);
    int (*wait_word)(struct gpu *gpu, gpu_stream stream, uint64_t address, uint64_t value,
                     struct error *error);
    int (*synchronize)(struct gpu *gpu, gpu_stream stream, struct error *error); // NULL: all streams
    int (*free_bytes)(struct gpu *gpu, uint64_t *bytes, struct error *error);
    int (*urgent_stream_create)(struct gpu *gpu, gpu_stream *stream, struct error *error);
    int (*call)(struct gpu *gpu, void (*function)(void *), void *argument, struct error *error);
    int (*mark_create)(struct gpu *gpu, gpu_mark *mark, struct error *error);
    void (*mark_destroy)(struct gpu *gpu, gpu_mark mark);
    int (*mark_put)(struct gpu *gpu, gpu_stream stream, gpu_mark mark, struct error *error);
    int (*mark_span)(struct gpu *gpu, gpu_mark first, gpu_mark second, int64_t *ns, struct error *error);
    // NULL: not in this build.
    int (*finish)(struct gpu *gpu, gpu_stream stream, const struct finish_batch *batch, struct error *error);
};

// "2 simulated GPUs (host:0 to host:1)", "no simulated GPU": for a daemon that simulates `count` GPUs.
void gpu_simulated(uint32_t count, char *text, size_t bytes);

// What this build can do on this machine, determined without loading the driver, for processes that must not load it.
// The simulated GPUs follow, if there are any.
void gpu_support(uint32_t simulated, char *text, size_t bytes);

// Whether a GPU with that UUID can be expected here, also determined without the driver. 0: yes; -EINVAL: that is not
// a UUID (a simulated GPU has only the spelling that gpu_resolve returns); -ENODEV: this machine has other GPUs;
// -ENOTSUP: this build has no CUDA or there is no driver. *simulated: the number of a simulated GPU, else -1.
int gpu_expect(const char *uuid, int *simulated, struct error *error);

// Which GPU delivery is possible here, as a sentence: no CUDA in this build, no driver, or the driver's version and how
// many GPUs this process sees; then the simulated GPUs. Loads the driver.
void gpu_describe(uint32_t simulated, char *text, size_t bytes);

// The UUID of the GPU that the user calls `name`: "cuda" (cuda:0), "cuda:N" (N as this process counts GPUs), a UUID
// that is visible to this process, or "host:N" for a simulated GPU. -EINVAL: anything else.
int gpu_resolve(const char *name, char uuid[GPU_UUID_BYTES], struct error *error);

// Opens the GPU with that UUID in the process's primary CUDA context, the one that the CUDA runtime and PyTorch use. No
// other context is created.
int gpu_open(struct gpu **gpu, const char *uuid, struct error *error);

// The handle's memory, streams and registrations must have been released.
void gpu_close(struct gpu *gpu);

// The size of an allocation for this many bytes.
uint64_t gpu_round_up(struct gpu *gpu, uint64_t bytes);

// Allocates zeroed memory that several processes can use. `bytes` is a result of gpu_round_up, or a multiple of one.
// The caller closes *fd, and may send it to other processes, also those of other users. The memory lives as long as
// the descriptor or a mapping exists in any process.
int gpu_create(struct gpu *gpu, uint64_t bytes, struct gpu_memory *memory, int *fd, struct error *error);
int gpu_import(struct gpu *gpu, int fd, uint64_t bytes, bool writable, struct gpu_memory *memory,
               struct error *error);

// Unmaps the memory. No queued work may still use it.
void gpu_free(struct gpu *gpu, struct gpu_memory *memory);

// Pins host memory that starts on a page, so that the GPU can access it. *address: the GPU's address of it. At most
// GPU_REGISTER_MOST bytes.
int gpu_host_register(struct gpu *gpu, void *memory, uint64_t bytes, bool read_only, uint64_t *address,
                      struct error *error);
void gpu_host_unregister(struct gpu *gpu, void *memory);

// These streams do not synchronize with the default stream.
int gpu_stream_create(struct gpu *gpu, gpu_stream *stream, struct error *error);
// One whose kernels go before those of other streams.
int gpu_urgent_stream_create(struct gpu *gpu, gpu_stream *stream, struct error *error);
void gpu_stream_destroy(struct gpu *gpu, gpu_stream stream);

// Queued on `stream`; `from` is registered memory and must not change until the copy is done.
int gpu_copy_in(struct gpu *gpu, gpu_stream stream, uint64_t to, const void *from, uint64_t bytes,
                struct error *error);

// Copies to ordinary host memory and waits until it is done. For inspecting data, not for speed.
int gpu_copy_out(struct gpu *gpu, void *to, uint64_t from, uint64_t bytes, struct error *error);

// Queued: writes 64-bit words when all earlier work of the stream is done and visible to anyone who sees the word.
int gpu_write_words(struct gpu *gpu, gpu_stream stream, const struct gpu_word *words, uint32_t count,
                    struct error *error);

// Queued, on a stream of the handle: writes the word when everything that this process has queued on the GPU so far is
// done, on any stream. With a driver older than CUDA 12.5, the call waits for that. -EAGAIN: a stream of the context is
// being captured into a CUDA graph; the capture becomes invalid.
int gpu_write_word_last(struct gpu *gpu, const struct gpu_word *word, struct error *error);

// Queued: later work of the stream waits until the word is at least `value`.
int gpu_wait_word(struct gpu *gpu, gpu_stream stream, uint64_t address, uint64_t value, struct error *error);

// Waits for all work queued on the stream, which is not the default one. On an NVIDIA GPU, it may come from another
// thread than the other calls, as gpu_call may; a simulated one keeps its streams in a list without a lock.
int gpu_stream_synchronize(struct gpu *gpu, gpu_stream stream, struct error *error);

// Waits for all work queued in the context, no matter who queued it.
int gpu_synchronize(struct gpu *gpu, struct error *error);

// Marks, for timelines. Before one is destroyed, the streams that it was put into must be past it, or destroyed.
int gpu_mark_create(struct gpu *gpu, gpu_mark *mark, struct error *error);
void gpu_mark_destroy(struct gpu *gpu, gpu_mark mark);

// Queued: the mark gets the GPU's time when all earlier work of the stream is done. What it had before is forgotten.
int gpu_mark_put(struct gpu *gpu, gpu_stream stream, gpu_mark mark, struct error *error);

// 1: *ns is the time from `first` to `second` by the GPU's own clock, negative if they came in the other order. 0: the
// GPU has not reached both.
int gpu_mark_span(struct gpu *gpu, gpu_mark first, gpu_mark second, int64_t *ns, struct error *error);

// Calls the function while the GPU's context is the thread's current one: for libraries of CUDA.
int gpu_call(struct gpu *gpu, void (*function)(void *), void *argument, struct error *error);

// Free GPU memory.
int gpu_free_bytes(struct gpu *gpu, uint64_t *bytes, struct error *error);

#endif
