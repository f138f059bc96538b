// Memory of a transfer process that is registered with the GPU.
#ifndef FEEDD_DAEMON_TRANSFER_PINNED_H
#define FEEDD_DAEMON_TRANSFER_PINNED_H

#include "base/error.h"
#include "gpu/gpu.h"

struct pinned {
    uint8_t *memory; // NULL: there is none
    uint64_t bytes;
};

// Errors: those of gpu_host_register; -ENOMEM also if there is no memory for the pages.
int pinned_open(struct pinned *pinned, struct gpu *gpu, uint64_t bytes, struct error *error);
// No queued work may still use it.
void pinned_close(struct pinned *pinned, struct gpu *gpu);

#endif
