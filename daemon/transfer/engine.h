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
    // A plain JPEG (plain_jpeg.h) in memory that nobody else can write to and that is registered with the GPU. From
    // other memory, nvJPEG's copy of 105 KB to the GPU takes 20 us of a core, half of its time for the image.
    const uint8_t *bytes;
    struct image_record *record; // the engine only reads it
    uint64_t to;                 // in GPU memory
    bool decoded;
};

// Call this before the GPU is opened. It asks for as many connections to the GPU as CUDA opens without MPS. With MPS, a
// process otherwise has two, with which the engine has a third of its speed (measured on an H200).
void engine_use_connections(void);

// -ENOTSUP and a sentence: this GPU has no engine, or this machine no library. All other errors may pass.
int engine_open(struct engine **engine, struct gpu *gpu, struct error *error);
void engine_close(struct engine *engine); // NULL is fine

// Decodes them and waits until they are decoded. Sets `decoded` of each image that the engine takes; those that it
// refuses are left to the caller. Errors are those of the GPU. May be called by another thread than the GPU's other
// calls.
//
// nvJPEG's hardware waits for nothing that is queued on the GPU (seen on H100s with versions 12 and 13, see
// meta-pytorch/torchcodec#1634), so nothing that uses the memory at `to` may still be queued: a slot comes here only
// after the process has seen that its last copies are done and that its consumers have released it.
int engine_decode(struct engine *engine, struct engine_image *images, uint32_t count, struct error *error);

#endif
