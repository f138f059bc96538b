// A device pool as its transfer process sees it: the feed's ring, pinned, and memory on the GPU for the slots of the
// pool's own ring.
#ifndef FEEDD_DAEMON_TRANSFER_DEVICE_RING_H
#define FEEDD_DAEMON_TRANSFER_DEVICE_RING_H

#include <sys/queue.h>

#include "base/error.h"
#include "daemon/control.h"
#include "daemon/transfer/copies.h"
#include "daemon/transfer/registration.h"

struct device_ring {
    LIST_ENTRY(device_ring) link;
    uint32_t id;
    struct gpu *gpu;
    bool open;        // false: the feed's ring, from which it copies, is still being pinned
    struct ring ring; // the pool's own
    int event_fd;     // wakes the supervisor
    struct registration registration;
    struct gpu_slots slots;
    uint32_t memory_due; // GIVE_MEMORYs still to come; nothing is prepared before they have
    int memory_fd;       // of memory created here, until it has been sent; else -1
    struct copies copies;
    uint64_t registering_ns;
    uint64_t reported_lag_ns;
    struct images_counts told_images; // what the supervisor knows
    uint64_t told_images_ns;
    uint32_t last_word; // a report, once it has ended
    struct error last_error;
};

// Takes over the descriptors of an OPEN_POOL, and closes them on failure. `engine` may be NULL.
int device_ring_begin(struct gpu *gpu, struct engine_queue *engine, const struct transfer_request *request,
                      int *fds, uint32_t fd_count, struct device_ring **pool, struct error *error);

// Takes over `fd`: memory that a slot has of its own since before this process.
int device_ring_give_memory(struct device_ring *pool, uint32_t slot, uint64_t bytes, int fd,
                            struct error *error);

// Allocates memory for a slot that nothing is being copied into. *fd, which the caller closes, is its descriptor, and
// *got its size.
int device_ring_grow_slot(struct device_ring *pool, uint32_t slot, uint64_t bytes, uint64_t *got, int *fd,
                          struct error *error);

// Pins the next piece of the ring. 1: there are more; 0: all are pinned and `open` is set; or an error.
int device_ring_prepare(struct device_ring *pool, struct error *error);

// The engine has none of the pool's jobs any more (images_are_settled).
void device_ring_end(struct device_ring *pool);

// Takes over `fd`.
int device_ring_add_consumer(struct device_ring *pool, uint32_t consumer, int fd, struct error *error);
void device_ring_remove_consumer(struct device_ring *pool, uint32_t consumer);

// Copies the ring's slots to the pool, which is not in use yet, to measure the speed of the bus in bytes per second.
int device_ring_measure_bus(struct device_ring *pool, uint64_t *bytes_per_s, struct error *error);

// Tells the supervisor who has decoded images since it was last told, a few times per second.
void device_ring_tell_images(struct device_ring *pool, uint64_t now);

// The supervisor has something to look at.
void device_ring_wake(const struct device_ring *pool);

#endif
