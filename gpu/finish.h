// Finishes the images of a batch on a GPU: the decoded planes in a pool become the tensor that is delivered. Crop,
// resize, flip, then a table that holds what each of the 256 values of a channel becomes; the same bits as on the CPU.
//
// This is the one kernel that feedd has. It belongs into the consumer's process: two processes' kernels take turns on a
// GPU. Without nvcc, a build has it only for simulated GPUs.
#ifndef FEEDD_GPU_FINISH_H
#define FEEDD_GPU_FINISH_H

#include "gpu/gpu.h"
#include "shm/image_record.h"

#define FINISH_TABLE_BYTES 4096u // room for 3 channels of 256 values of up to 4 bytes

// Addresses are the GPU's. The kernel has a copy of this.
struct finish_batch {
    uint64_t records;       // struct image_record[], one per sample
    uint64_t pixels;        // what they describe: `area` bytes per sample
    uint64_t table, output; // output: one image after another
    uint64_t area;
    uint32_t count; // samples
    uint32_t width, height, channels;
    uint32_t element_bytes; // 1, 2 or 4
    uint32_t planes;        // 1: [C,H,W], else [H,W,C]
};

// Whether this build can finish images on that GPU.
bool gpu_finishes(const struct gpu *gpu);

// Queued on `stream`. All memory stays as it is until that is done.
int gpu_finish(struct gpu *gpu, gpu_stream stream, const struct finish_batch *batch, struct error *error);

// What the kernel does, in host memory.
void finish_on_host(const struct finish_batch *batch);

#endif
