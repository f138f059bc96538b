// What a client asks for when it attaches, checked.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_ATTACH_REQUEST_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_ATTACH_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/dataset/dataset.h"
#include "gpu/gpu.h"
#include "order/mix_run.h"
#include "proto/limits.h"

// What decodes images of `decode gpu`: "" there are none, IMAGES_BY_ENGINE, or a sentence that says why loaders do.
#define IMAGES_BY_TEXT   256
#define IMAGES_BY_ENGINE "engine"

// What all clients that share a feed must agree on.
struct feed_shape {
    const struct dataset *dataset;
    uint32_t batch_size;
    bool shuffle;
    bool drop_last;
    uint64_t seed;
    uint32_t world_size;
    struct mix_run mix; // of a mix; else zeros
    bool gpu_images;    // the ring has images for GPUs to make: not for consumers in host memory
};

struct attach_request {
    struct feed_shape shape;
    char name[PROTO_MAX_NAME + 1]; // "" for a private feed
    uint32_t rank;
    uint64_t epochs;
    uint32_t local_world_size;
    uint32_t prefetch;
    uint32_t wait_for;
    bool confirms; // says so once it knows its place, and does not count towards wait_for before that
    uint64_t max_lag_s;
    uint64_t ring_bytes;
    char device[GPU_UUID_BYTES]; // "": host memory
    uint32_t device_world_size;
    bool finishes_images; // so that decoded ones may come
    char images_by[IMAGES_BY_TEXT];
    bool reconnect; // after the loss of a daemon, to a run that began there:
    uint64_t run_epoch, run_consumed;
    bool unbegun;                         // nothing of that run had been granted
    uint32_t leases;                      // what it was first promised there; 0: not known, like the next two
    uint32_t ring_slots, pool_slots;      // and how much room there was
    bool resume;                          // with a token:
    uint64_t start_epoch, start_consumed; // the consumer's position
    bool mix_changes;                     // shape.mix is to get the weights of the configuration there
};

#endif
