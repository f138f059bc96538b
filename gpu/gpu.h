// One GPU as a process sees it. Two implementations behind one table of operations: gpu_cuda*.c, of which
// gpu_cuda_driver.h alone includes CUDA's headers, and gpu_host*.c, which simulates a GPU in host memory so that
// everything built on this runs and is tested on any machine.
//
// A GPU is known by its UUID everywhere ("GPU-53ce3473-78b4-0a9f-482c-b0ec960d2263"; simulated ones "HOST-0",
// "HOST-1" and so on); what a user calls "cuda:1" depends on his environment. The CUDA driver is looked for at run
// time (dlopen, cuGetProcAddress): a program starts with and without one.
//
// Threads: a handle belongs to one thread at a time. A thread's own current CUDA context is left as it was.
// Processes: a handle is of no use in a process forked from the one that opened it, which is told so.
// Errors: negative errno and a sentence. -ENODEV no such GPU, or not visible to this process; -ENOTSUP this build has
// no CUDA, there is no driver, it is too old, the GPU cannot export memory, or the process was forked; -ENOMEM GPU or
// host memory is out; -EINVAL a call or a name that is wrong whatever the GPU; -EIO what else the driver reports, as
// for a GPU or a context that is lost.
#ifndef FEEDD_GPU_GPU_H
#define FEEDD_GPU_GPU_H

#include "base/error.h"

#define GPU_UUID_BYTES    48u // with the terminating 0
#define GPU_NAME_BYTES    64u
#define GPU_WORDS_MOST    64u          // in one gpu_write_words
#define GPU_REGISTER_MOST (256u << 20) // bytes in one gpu_host_register

typedef void *gpu_stream; // a CUstream; NULL is CUDA's default stream

// Memory on the GPU, mapped into this process.
struct gpu_memory {
    // as the GPU sees it: what kernels are given. Of a simulated GPU a pointer of this process
    uint64_t address;
    uint64_t bytes;
    uint64_t handle; // the implementation's
};

struct gpu_word {
    uint64_t address; // as the GPU sees it, a multiple of 8
    uint64_t value;
};

struct gpu {
    const struct gpu_operations *operations;
    char uuid[GPU_UUID_BYTES];
    char name[GPU_NAME_BYTES]; // "NVIDIA H200"
    uint64_t memory_bytes;
    int number; // as this process counts its GPUs; -1: a simulated one
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
    int (*synchronize)(struct gpu *gpu, struct error *error);
    int (*free_bytes)(struct gpu *gpu, uint64_t *bytes, struct error *error);
};

// "2 simulated GPUs (host:0 to host:1)", "no simulated GPU": of a daemon that plays so many.
void gpu_simulated(uint32_t count, char *text, size_t bytes);

// What this build can do on this machine, found out without loading the driver: for processes that must not. Behind it,
// unless there are none, the simulated GPUs.
void gpu_support(uint32_t simulated, char *text, size_t bytes);

// Whether a GPU of that UUID can be expected here, found out in the same way: 0 it can, -EINVAL that is no UUID (a
// simulated one has one spelling, that of gpu_resolve), -ENODEV this machine has others, -ENOTSUP no CUDA in this build
// or no driver. *simulated: the number of a simulated one, else -1.
int gpu_expect(const char *uuid, int *simulated, struct error *error);

// What GPU delivery is possible here, in a sentence for people: no CUDA in this build, no driver, or the driver's
// version and how many GPUs this process sees; then the simulated ones. Loads the driver.
void gpu_describe(uint32_t simulated, char *text, size_t bytes);

// The UUID of what the user calls `name`: "cuda" (cuda:0), "cuda:N" counted as this process sees them, a UUID that is
// visible to this process, or "host:N" for a simulated one. -EINVAL: none of these.
int gpu_resolve(const char *name, char uuid[GPU_UUID_BYTES], struct error *error);

// Opens the GPU with that UUID in the process's primary CUDA context, which is the one that the CUDA runtime and
// PyTorch use: none is made beside it.
int gpu_open(struct gpu **gpu, const char *uuid, struct error *error);

// Memory, streams and registrations of the handle must be gone.
void gpu_close(struct gpu *gpu);

// The size that an allocation of so many bytes takes.
uint64_t gpu_round_up(struct gpu *gpu, uint64_t bytes);

// Memory for several processes, all 0. `bytes` is a multiple of what gpu_round_up gives. *fd (the caller's to close)
// may be sent to other processes, also of other users; the memory lives as long as it or a mapping does, in whatever
// process.
int gpu_create(struct gpu *gpu, uint64_t bytes, struct gpu_memory *memory, int *fd, struct error *error);
int gpu_import(struct gpu *gpu, int fd, uint64_t bytes, bool writable, struct gpu_memory *memory,
               struct error *error);

// Unmaps. No work that uses it may be queued any more.
void gpu_free(struct gpu *gpu, struct gpu_memory *memory);

// Pins host memory that starts on a page, so that the GPU can reach it. *address: as the GPU sees it. At most
// GPU_REGISTER_MOST.
int gpu_host_register(struct gpu *gpu, void *memory, uint64_t bytes, bool read_only, uint64_t *address,
                      struct error *error);
void gpu_host_unregister(struct gpu *gpu, void *memory);

// Streams of our own: they do not wait for the default stream.
int gpu_stream_create(struct gpu *gpu, gpu_stream *stream, struct error *error);
void gpu_stream_destroy(struct gpu *gpu, gpu_stream stream);

// Queued on `stream`; `from` is registered and must stay as it is until the copy is done.
int gpu_copy_in(struct gpu *gpu, gpu_stream stream, uint64_t to, const void *from, uint64_t bytes,
                struct error *error);

// At once: copies to plain host memory and waits for it. For looking at data, not for speed.
int gpu_copy_out(struct gpu *gpu, void *to, uint64_t from, uint64_t bytes, struct error *error);

// Queued: writes 64-bit words when all before in the stream is done and visible to whoever sees the word.
int gpu_write_words(struct gpu *gpu, gpu_stream stream, const struct gpu_word *words, uint32_t count,
                    struct error *error);

// Queued, in a stream of the handle's own: writes the word when all is done that this process has queued on the GPU
// until now, in whatever stream. With a driver older than CUDA 12.5 it waits for that. -EAGAIN: not while a stream of
// the context is captured into a CUDA graph; the capture is spoilt.
int gpu_write_word_last(struct gpu *gpu, const struct gpu_word *word, struct error *error);

// Queued: what follows in the stream waits until the word is `value` or more.
int gpu_wait_word(struct gpu *gpu, gpu_stream stream, uint64_t address, uint64_t value, struct error *error);

// Waits for everything that was queued in the context, by whomever.
int gpu_synchronize(struct gpu *gpu, struct error *error);

// GPU memory that nobody uses.
int gpu_free_bytes(struct gpu *gpu, uint64_t *bytes, struct error *error);

#endif
