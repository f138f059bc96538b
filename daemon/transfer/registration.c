#include "daemon/transfer/registration.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/sizes.h"

int registration_begin(struct registration *registration, struct gpu *gpu, const struct ring *ring,
                       struct error *error) {
    uint64_t slot_bytes = ring->header->slot_bytes;
    if (slot_bytes > GPU_REGISTER_MOST)
        return error_set(error, -EOVERFLOW,
                         "a batch of %" PRIu64
                         " MiB is too large for a GPU: at most %u MiB; ask for smaller batches",
                         divide_up(slot_bytes, 1u << 20), GPU_REGISTER_MOST >> 20);
    *registration = (struct registration){
        .gpu = gpu,
        .data = ring->data,
        .bytes = slot_bytes * ring->header->slot_count,
        .piece_bytes = GPU_REGISTER_MOST / slot_bytes * slot_bytes,
    };
    return 0;
}

int registration_step(struct registration *registration, struct error *error) {
    uint64_t left = registration->bytes - registration->done_bytes;
    uint64_t bytes = min_u64(left, registration->piece_bytes);
    uint64_t address; // the GPU's; unused, as copies take host addresses
    if (!left)
        return 0;
    int err = gpu_host_register(registration->gpu, registration->data + registration->done_bytes, bytes, true,
                                &address, error);
    if (err) {
        registration_end(registration);
        return err;
    }
    registration->done_bytes += bytes;
    return registration->done_bytes < registration->bytes;
}

void registration_end(struct registration *registration) {
    for (uint64_t at = 0; at < registration->done_bytes; at += registration->piece_bytes)
        gpu_host_unregister(registration->gpu, registration->data + at);
    registration->done_bytes = 0;
}
