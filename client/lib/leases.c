#include "client/lib/leases.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "gpu/gpu_cuda_ranges.h"

// ---- Grants -------------------------------------------------------------------------------------

static int grant_slot(struct attachment *attachment, uint32_t slot, uint64_t fill, struct error *error) {
    const char *socket = attachment->request->socket;
    if (slot >= attachment->ring.header->slot_count)
        return error_set(error, -EPROTO, "feedd on %s granted slot %u of %u", socket, slot,
                         attachment->ring.header->slot_count);
    if (attachment->leases[slot].state != LEASE_NONE)
        return error_set(error, -EPROTO, "feedd on %s granted slot %u twice", socket, slot);
    if (attachment->held + attachment->queue_count + attachment->returned_count >= attachment->prefetch)
        return error_set(error, -EPROTO, "feedd on %s granted more than the %u batches agreed", socket,
                         attachment->prefetch);
    attachment->leases[slot] =
        (struct lease){.sequence = attachment->next_sequence++, .fill = fill, .state = LEASE_QUEUED};
    uint32_t place = (attachment->queue_first + attachment->queue_count++) % attachment->prefetch;
    attachment->queue[place] = slot;
    return 0;
}

int leases_grant(struct attachment *attachment, const Feedd__Grant *grant, struct error *error) {
    if (grant->sequence != attachment->next_sequence)
        return error_set(error, -EPROTO, "feedd on %s granted batch %llu after batch %llu",
                         attachment->request->socket, (unsigned long long)grant->sequence,
                         (unsigned long long)attachment->next_sequence);
    if (grant->n_fills != grant->n_slots)
        return error_set(error, -EPROTO,
                         "feedd on %s granted %zu slots, and said of %zu how often they were filled",
                         attachment->request->socket, grant->n_slots, grant->n_fills);
    for (size_t i = 0; i < grant->n_slots; i++) {
        int err = grant_slot(attachment, grant->slots[i], grant->fills[i], error);
        if (err)
            return err;
    }
    attachment->waiting = attachment->waiting && grant->n_slots == 0;
    if (grant->wait_for)
        attachment->wait_for = grant->wait_for;
    return 0;
}

int leases_grow_slot(struct attachment *attachment, const Feedd__SlotMemory *memory, struct error *error) {
    int memory_fd AUTO_CLOSE = frame_take_fd(&attachment->connection.reader);
    const bool exists = attachment->pool.gpu && memory->slot < attachment->ring.header->slot_count;
    if (!exists || attachment->leases[memory->slot].state != LEASE_NONE)
        return error_set(error, -EPROTO, "feedd on %s gave memory to slot %u, which %s",
                         attachment->request->socket, memory->slot,
                         exists ? "this consumer holds" : "does not exist");
    return mapped_pool_grow_slot(&attachment->pool, memory->slot, memory->bytes, memory_fd,
                                 attachment->leases[memory->slot].fill, error);
}

void leases_forget_queue(struct attachment *attachment) {
    attachment->queue_count = 0;
}

// ---- What slots say -----------------------------------------------------------------------------

// A daemon that closes a feed empties the ring. It does so KEPT_NS, which is 10 s, after it has ended a session that
// held batches (daemon/supervisor/feeds/kept.h). From then on a look at the mapping needs a new page, and if /dev/shm
// is full, it raises SIGBUS. The descriptor reads zeros without a page, but takes a system call.
#define TRUST_NS (5 * NS_PER_S)

static bool may_be_emptied(const struct attachment *attachment) {
    return monotonic_ns() >= attachment->connection.alive_ns + TRUST_NS;
}

// False: it is not there any more.
static bool read_ring(const struct attachment *attachment, const void *mapped, void *copy, size_t bytes) {
    off_t offset = (off_t)((const uint8_t *)mapped - (const uint8_t *)attachment->ring.control);
    return pread(attachment->ring_fd, copy, bytes, offset) == (ssize_t)bytes;
}

const struct ring_slot *leases_record(const struct attachment *attachment, uint32_t slot,
                                      struct ring_slot *copy) {
    const struct ring_slot *mapped = ring_slot(&attachment->ring, slot);
    if (!may_be_emptied(attachment))
        return mapped;
    if (!read_ring(attachment, mapped, copy, sizeof *copy))
        memset(copy, 0, sizeof *copy); // no fill is 0
    return copy;
}

const _Atomic uint64_t *leases_skips(const struct attachment *attachment, uint32_t slot, uint64_t *copy) {
    const _Atomic uint64_t *mapped = ring_skips(&attachment->ring, slot);
    size_t bytes = attachment->ring.header->skip_words * sizeof *copy;
    if (!may_be_emptied(attachment))
        return mapped;
    if (!read_ring(attachment, (const void *)mapped, copy, bytes))
        memset(copy, 0, bytes);
    return (const _Atomic uint64_t *)copy;
}

void leases_places(const struct attachment *attachment, uint32_t slot, uint32_t chunk, uint64_t *places) {
    uint32_t ragged = attachment->ring.header->ragged_count;
    size_t bytes = ragged * sizeof *places;
    const _Atomic uint64_t *mapped = ring_places(&attachment->ring, slot) + (uint64_t)chunk * ragged;
    if (may_be_emptied(attachment)) {
        if (!read_ring(attachment, (const void *)mapped, places, bytes))
            memset(places, 0, bytes);
        return;
    }
    // Relaxed: written before the batch was granted.
    for (uint32_t i = 0; i < ragged; i++)
        places[i] = atomic_load_explicit(&mapped[i], memory_order_relaxed);
}

bool leases_still_ours(const struct attachment *attachment, uint32_t slot) {
    const struct lease *lease = &attachment->leases[slot];
    struct ring_slot copy;
    // Keeps the reads of the batch before the look at the slot's record, as in a seqlock; pairs with the fence in
    // name_batch. The record is written before loaders may fill the slot again, so bytes that were overwritten while
    // the application read them are found out here.
    atomic_thread_fence(memory_order_acquire);
    const struct ring_slot *record = leases_record(attachment, slot, &copy);
    // No number of fills comes twice. The name of a batch does, in the same slot too, when its lane goes back; that it
    // is the one granted shows only that the daemon and the ring agree, so the order of these reads does not matter.
    return __atomic_load_n(&record->fill, __ATOMIC_RELAXED) == lease->fill &&
           __atomic_load_n(&record->sequence, __ATOMIC_RELAXED) == lease->sequence &&
           __atomic_load_n(&record->rank, __ATOMIC_RELAXED) == attachment->request->options.rank &&
           __atomic_load_n(&record->run, __ATOMIC_RELAXED) == attachment->run;
}

// ---- Releases -----------------------------------------------------------------------------------

void leases_return(struct attachment *attachment, uint32_t slot) {
    attachment->held--;
    gpu_range_stop(attachment->leases[slot].range);
    attachment->leases[slot].state = LEASE_RETURNED;
    attachment->returned[attachment->returned_count++] = slot;
}

void leases_end_ranges(const struct attachment *attachment) {
    for (uint32_t slot = 0; attachment->held > 0 && slot < attachment->ring.header->slot_count; slot++)
        if (attachment->leases[slot].state == LEASE_HELD)
            gpu_range_stop(attachment->leases[slot].range);
}

// At a quarter of the credits: few messages, and the daemon always has most of them to work with. At once while we
// wait, perhaps for just this one.
bool leases_are_due(const struct attachment *attachment) {
    return attachment->waiting || attachment->returned_count >= max_u64(attachment->prefetch / 4, 1);
}

void leases_confirm(struct attachment *attachment) {
    Feedd__Release nothing = FEEDD__RELEASE__INIT;
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_RELEASE;
    message.release = &nothing;
    connection_send(&attachment->connection, &message);
}

void leases_send(struct attachment *attachment, bool waiting) {
    Feedd__Release release = FEEDD__RELEASE__INIT;
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_RELEASE;
    message.release = &release;
    while (attachment->returned_count > 0 || waiting) {
        uint32_t count = (uint32_t)min_u64(attachment->returned_count, PROTO_MAX_GRANTS);
        uint32_t *slots = attachment->returned + attachment->returned_count - count;
        release.slots = slots;
        release.n_slots = count;
        release.waiting = waiting && count == attachment->returned_count;
        if (connection_send(&attachment->connection, &message) < 0)
            return; // the daemon is not reading: what is unsent waits until it does
        for (uint32_t i = 0; i < count; i++)
            attachment->leases[slots[i]].state = LEASE_NONE;
        attachment->returned_count -= count;
        if (release.waiting) {
            attachment->waiting = true;
            return;
        }
    }
}
