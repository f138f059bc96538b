// The properties and faults of a simulated GPU: see gpu_host.h.
#ifndef FEEDD_GPU_GPU_HOST_FAULTS_H
#define FEEDD_GPU_GPU_HOST_FAULTS_H

#include <stdbool.h>

#include "base/error.h"

struct host_faults {
    uint64_t memory, open_ms, submit_ms, register_ms, unregister_ms, create_ms, import_ms, slow_every;
    uint64_t copy_us, fail_copy, stall_copy, stall_register, pin_most, pin_lacks, crash_create, crash_bytes,
        no_export;
    uint64_t no_engine, no_engine_on, engine_at_ms, first_image_ms, refuse_image, crash_image, stall_image;
    uint64_t slow_calls, copies, registered, lacked, created; // so far
};

// Reads them from the environment; -EINVAL for words that it does not know.
int host_faults_read(struct host_faults *faults, struct error *error);

// A call takes that long, or only every Nth one does (slow_every).
void host_faults_delay(struct host_faults *faults, uint64_t ms);

// What happens in a call that registers memory, allocates it, or queues a copy: it may take long, never end, or end the
// process. host_faults_register returns an error if pinning is to fail; host_faults_copy returns true if the GPU is
// lost from this copy on.
int host_faults_register(struct host_faults *faults, uint64_t bytes, struct error *error);
void host_faults_create(struct host_faults *faults, uint64_t bytes);
bool host_faults_copy(struct host_faults *faults);

#endif
