// The memory that a simulated GPU can access: its own, and what the process has registered.
#ifndef FEEDD_GPU_GPU_HOST_RANGE_H
#define FEEDD_GPU_GPU_HOST_RANGE_H

#include <sys/queue.h>

#include "base/error.h"
#include "gpu/gpu.h"

struct host_range {
    LIST_ENTRY(host_range) link;
    uint8_t *begin;
    uint64_t bytes;
    bool writable;
    bool allocated; // by this handle, not imported: it counts against the GPU's memory
};
LIST_HEAD(host_ranges, host_range);

// Whether one range contains all the bytes and, if `to_write`, is writable.
bool host_ranges_hold(const struct host_ranges *ranges, uint64_t address, uint64_t bytes, bool to_write);

// As with CUDA, registrations belong to the process: they are valid on every GPU, and none may overlap another.
int host_registration_add(void *memory, uint64_t bytes, bool writable, struct error *error);
void host_registration_remove(void *memory);
bool host_registrations_hold(uint64_t address, uint64_t bytes, bool to_write);

#endif
