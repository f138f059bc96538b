// The properties and faults of a simulated GPU: see gpu_host.h.
#ifndef FEEDD_GPU_GPU_HOST_FAULTS_H
#define FEEDD_GPU_GPU_HOST_FAULTS_H

#include "base/error.h"

struct host_faults {
    uint64_t memory, open_ms, copy_us, fail_copy, stall_copy, crash_create, crash_bytes, no_export, no_engine,
        no_engine_on, refuse_image, crash_image, stall_image;
};

// Reads them from the environment; -EINVAL for words that it does not know.
int host_faults_read(struct host_faults *faults, struct error *error);

#endif
