// The engine of a GPU that decodes JPEG, beside the processors that run kernels: NVIDIA's by way of nvJPEG, which is
// looked for at run time, and a simulated one.
//
// nvJPEG launches no kernels if it is to decode into planes with the hardware alone (seen with a profiler on an H200),
// so it may be used in this process. Its planes are equal to those of libjpeg-turbo's accurate decoder, bit for bit.
#ifndef FEEDD_DAEMON_TRANSFER_ENGINE_H
#define FEEDD_DAEMON_TRANSFER_ENGINE_H

#include "base/error.h"
#include "gpu/gpu.h"
#include "shm/image_record.h"

struct engine;

// One image: the part that `record` says, to be decoded into planes at `to`, as image_record_plane() places them.
struct engine_image {
    const uint8_t *bytes;        // a plain JPEG (plain_jpeg.h) in memory that nobody else can write to
    struct image_record *record; // the engine only reads it
    uint64_t to;                 // in GPU memory
    bool decoded;
};

// -ENOTSUP and a sentence: this GPU has no engine, or this machine no library.
int engine_open(struct engine **engine, struct gpu *gpu, struct error *error);
void engine_close(struct engine *engine); // NULL is fine

// Queued on `stream`, or done at once. Sets `decoded` of each image that the engine takes; those that it refuses are
// left to the caller. Errors are those of the GPU.
//
// nvJPEG's hardware does not wait for what is queued on the stream (seen on H100s with versions 12 and 13, see
// meta-pytorch/torchcodec#1634), so nothing that uses the memory at `to` may still be queued: a slot comes here only
// after the process has seen that its last copies are done and that its consumers have released it.
int engine_decode(struct engine *engine, gpu_stream stream, struct engine_image *images, uint32_t count,
                  struct error *error);

#endif
