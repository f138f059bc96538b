// For GenMC: a detached client that still reads a batch (batch_take, its bytes, leases_still_ours) while the
// supervisor gives the slot to another batch and a loader fills it.
// Linked with: shm/ring_loader.c shm/ring_supervisor.c shm/ring_places.c client/lib/batch.c client/lib/leases.c
#include "tests/model/genmc/ring.h"

#include "client/lib/batch.h"
#include "client/lib/leases.h"

enum {
    OLD = 1,
    NEW = 2
};

RING_MEMORY(memory, 1, 1, 2, 0);
static _Atomic uint64_t bytes; // of the slot

static struct lease leases[1];
static uint32_t queue[1];
static struct open_request request;
static struct attachment attachment;
static struct feed_batch taken;

static bool dispatch_next(struct ring *ring, uint64_t run, uint64_t sequence, uint64_t first_position) {
    struct ring_batch name = {.run = run, .rank = 0, .sequence = sequence};
    struct batch_place place = {.first_position = first_position, .count = 1};
    return ring_dispatch(ring, 0, &name, &place);
}

static void fill(uint64_t value) {
    struct ring ring = RING_OF(memory);
    struct ring_claim claim;
    if (!ring_claim(&ring, 1, &claim))
        return;
    atomic_store_explicit(&bytes, value, memory_order_relaxed);
    (void)ring_chunk_done(&ring, &claim, 0);
}

static void *loader(void *unused) {
    fill(NEW);
    return unused;
}

static void *client(void *unused) {
    struct error error;
    if (batch_take(&attachment, NULL, &taken, &error) != 1)
        return unused;
    CHECK(taken.first_position == OLD);
    uint64_t read = atomic_load_explicit(&bytes, memory_order_relaxed);
    if (leases_still_ours(&attachment, 0))
        CHECK(read == OLD);
    return unused;
}

int main(void) {
    struct ring ring = RING_OF_SUPERVISOR(memory);
    CHECK(dispatch_next(&ring, 1, 0, OLD));
    fill(OLD);
    CHECK(ring_slot_poll(&ring, 0) == RING_SLOT_READY);
    attachment.ring = RING_OF(memory);
    attachment.request = &request;
    attachment.run = 1;
    attachment.prefetch = 1;
    attachment.leases = leases;
    attachment.queue = queue;
    attachment.queue_count = 1;
    leases[0].state = LEASE_QUEUED;
    leases[0].fill = ring_dispatched(&ring, 0)->fill;
    long reading = spawn(client, NULL);
    long loading = spawn(loader, NULL);
    ring_slot_free(&ring, 0);
#if defined NEXT_RUN
    CHECK(dispatch_next(&ring, 2, 0, NEW));
#elif defined SAME_NAME
    CHECK(dispatch_next(&ring, 1, 0, NEW));
#else
    CHECK(dispatch_next(&ring, 1, 1, NEW));
#endif
    join(reading);
    join(loading);
    return 0;
}
