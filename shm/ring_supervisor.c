// The supervisor's side of the ring: fill slots, see batches complete, take back the work of a dead loader.
//
// Loaders can write to all of the ring, and one that has been taken over may write anything there at any time. So the
// supervisor reads only what loaders have to tell it (chunk words, `repair`, the claim cursor, a failure), and takes
// each of these as a claim: out of its range, it makes the batch RING_SLOT_BROKEN; inside, the worst is wrong bytes in
// this ring. What it has written itself it keeps in ring->dispatched and ring->queued, and never reads back.
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "base/sizes.h"
#include "order/partition.h"
#include "shm/ring_lacking.h"
#include "shm/ring_places.h"
#include "shm/ring_skips.h"
#include "shm/ring_supervisor.h"
#include "shm/ring_words.h"

int ring_supervise(struct ring *ring, struct error *error) {
    const struct ring_header *header = ring->header;
    ring->dispatched = calloc(header->slot_count, sizeof *ring->dispatched);
    if (header->ragged_count)
        ring->places = calloc(header->slot_count * ring_slot_places(header), sizeof *ring->places);
    if (header->attempts_offset)
        ring->attempts = calloc(header->slot_count, header->batch_size);
    bool complete = ring->dispatched && (ring->places || !header->ragged_count) &&
                    (ring->attempts || !header->attempts_offset);
    return complete ? 0 : error_set(error, -ENOMEM, "out of memory"); // ring_unmap frees the others
}

uint64_t ring_unclaimed(const struct ring *ring) {
    uint64_t cursor = atomic_load_explicit(&ring->control->claim_cursor, memory_order_relaxed);
    uint32_t chunks = ring->header->chunks_per_slot;
    uint64_t begun = cursor / chunks + (cursor % chunks != 0);
    return ring->queued - min_u64(begun, ring->queued);
}

// A cursor that is further behind than the queue is long is nonsense: then the queue counts as full.
static bool has_queue_room(const struct ring *ring) {
    // Pairs with the release of a loader that moves the cursor: it has read the entries that are passed.
    uint64_t cursor = atomic_load_explicit(&ring->control->claim_cursor, memory_order_acquire);
    uint64_t passed = min_u64(cursor / ring->header->chunks_per_slot, ring->queued);
    return ring->queued - passed < ring->header->queue_entries;
}

// The queue has room for every slot twice, and dispatch alone puts a slot into it, once per batch. It can still
// fill up: a loader that dies between claiming a chunk and moving the cursor leaves the cursor at an entry that is
// spent once the recovered chunk is done. When the slot is dispatched again, the next loader can claim its first
// chunk by way of that old entry and die in the same place, and so on, an entry per death. Nobody who would tell
// of it walks over such entries: the supervisor passes over them itself, and a queue that stays full has a FREE
// chunk in front, whose batch will be finished with a wake-up. A RECOVERED chunk can be passed over: loaders find
// it without the queue.
static bool make_queue_room(struct ring *ring) {
    const struct ring_header *header = ring->header;
    _Atomic uint64_t *claim_cursor = &ring->control->claim_cursor;
    uint64_t cursor = atomic_load_explicit(claim_cursor, memory_order_relaxed);
    // Each round moves the cursor by a chunk or finds that a loader has: an entry has no more than these.
    for (uint32_t round = 0; !has_queue_room(ring); round++) {
        if (round > header->chunks_per_slot)
            return false;
        uint32_t slot = atomic_load_explicit(ring_queue_entry(ring, cursor / header->chunks_per_slot),
                                             memory_order_relaxed);
        // Only the supervisor makes a chunk FREE, so one that is not FREE stays so meanwhile.
        if (slot < header->slot_count &&
            chunk_state(atomic_load_explicit(&ring_chunks(ring, slot)[cursor % header->chunks_per_slot],
                                             memory_order_relaxed)) == CHUNK_FREE)
            return false;
        if (atomic_compare_exchange_strong_explicit(claim_cursor, &cursor, cursor + 1, memory_order_relaxed,
                                                    memory_order_relaxed))
            cursor++;
    }
    return true;
}

// The release publishes the slot's description and FREE words with the entry; pairs with ring_claim.
static void queue_slot(struct ring *ring, uint32_t slot) {
    atomic_store_explicit(ring_queue_entry(ring, ring->queued), slot, memory_order_relaxed);
    atomic_store_explicit(&ring->control->queue_head, ++ring->queued, memory_order_release);
}

// First of all. A client that holds the slot's last batch without knowing that it was taken back compares `fill` after
// it has read. The fence pairs with that in leases_still_ours: a read of what follows here finds the new number.
static void name_batch(struct ring *ring, uint32_t slot) {
    struct ring_slot *batch = ring_slot(ring, slot);
    const struct ring_slot *own = &ring->dispatched[slot];
    __atomic_store_n(&batch->fill, own->fill, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->run, own->run, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->rank, own->rank, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->sequence, own->sequence, __ATOMIC_RELAXED);
    atomic_thread_fence(memory_order_release);
}

static void describe_batch(struct ring *ring, uint32_t slot) {
    struct ring_slot *batch = ring_slot(ring, slot);
    const struct ring_slot *own = &ring->dispatched[slot];
    __atomic_store_n(&batch->epoch, own->epoch, __ATOMIC_RELAXED); // a detached client may be reading
    __atomic_store_n(&batch->index, own->index, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->first_position, own->first_position, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->consumed, own->consumed, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->count, own->count, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->skipped, own->skipped, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->chunk_count, own->chunk_count, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->last_of_epoch, own->last_of_epoch, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->source, own->source, __ATOMIC_RELAXED);
    atomic_store_explicit(&batch->recovered, 0, memory_order_relaxed); // published with the chunks
    ring_places_publish(ring, slot);
}

bool ring_dispatch_copy(struct ring *ring, uint32_t slot, const struct ring *from, uint32_t source,
                        uint64_t unread) {
    if (!make_queue_room(ring))
        return false;
    struct ring_slot *own = &ring->dispatched[slot];
    uint64_t fill = own->fill + 1;
    *own = from->dispatched[source];
    own->chunk_count = 1; // even without samples: consumers' streams wait for its sequence word
    own->fill = fill;
    own->source = source;
    name_batch(ring, slot);
    ring_clear_all_skips(ring, slot);
    if (own->skipped)
        ring_copy_skips(ring, slot, from, source);
    ring_places_copy(ring, slot, from, source);
    describe_batch(ring, slot);
    atomic_store_explicit(&ring_slot(ring, slot)->unread, unread, memory_order_relaxed); // as `recovered`
    // Release, as in ring_dispatch.
    atomic_store_explicit(&ring_chunks(ring, slot)[0], chunk_word(CHUNK_FREE, 0, 0), memory_order_release);
    queue_slot(ring, slot);
    return true;
}

static void dispatch(struct ring *ring, uint32_t slot, const struct ring_batch *name,
                     const struct batch_place *place) {
    ring->dispatched[slot] =
        (struct ring_slot){.fill = ring->dispatched[slot].fill + 1,
                           .run = name->run,
                           .rank = name->rank,
                           .sequence = name->sequence,
                           .epoch = place->epoch,
                           .index = place->index,
                           .first_position = place->first_position,
                           .consumed = place->consumed,
                           .count = (uint32_t)place->count,
                           .chunk_count = (uint32_t)divide_up(place->count, ring->header->chunk_samples),
                           .last_of_epoch = place->last_of_epoch};
    name_batch(ring, slot);
    // Whatever `skipped` was: it was never set for a batch that failed.
    ring_clear_all_skips(ring, slot);
    describe_batch(ring, slot);
}

bool ring_dispatch(struct ring *ring, uint32_t slot, const struct ring_batch *name,
                   const struct batch_place *place) {
    if (!make_queue_room(ring))
        return false;
    const struct ring_slot *own = &ring->dispatched[slot];
    dispatch(ring, slot, name, place);
    _Atomic uint64_t *words = ring_chunks(ring, slot);
    for (uint32_t i = 0; i < own->chunk_count; i++)
        // Release: a loader may take this chunk by way of an old queue entry of the slot.
        atomic_store_explicit(&words[i], chunk_word(CHUNK_FREE, 0, 0), memory_order_release);
    if (own->chunk_count)
        queue_slot(ring, slot);
    return true;
}

void ring_wake_loaders(struct ring *ring, uint32_t chunks) {
    struct ring_control *control = ring->control;
    // Pairs with ring_wait_for_work. The flag first, then the futex word: a loader whose flag is taken back here
    // has read the old word, so it cannot fall asleep on the new one without a flag.
    if (!chunks || !atomic_exchange(&control->loaders_asleep, 0))
        return;
    atomic_fetch_add(&control->work, 1);
    long woken = syscall(SYS_futex, &control->work, FUTEX_WAKE, (int)min_u64(chunks, INT_MAX), NULL, NULL, 0);
    if (woken >= (long)chunks)
        atomic_store(&control->loaders_asleep, 1); // perhaps others are still asleep
}

// Pairs with claim_urgent, which sees what was made FREE or RECOVERED before. Sequentially consistent: see
// ring_announce_sleep.
static void count_urgent(struct ring *ring, uint32_t jobs) {
    atomic_fetch_add(&ring->control->urgent_wanted, jobs);
}

void ring_dispatch_again(struct ring *ring, uint32_t slot, const struct ring_batch *name,
                         const struct batch_place *place) {
    const struct ring_slot *own = &ring->dispatched[slot];
    dispatch(ring, slot, name, place);
    atomic_store_explicit(&ring_slot(ring, slot)->recovered, own->chunk_count, memory_order_relaxed);
    for (uint32_t i = 0; i < own->chunk_count; i++)
        // Release, as in ring_dispatch.
        atomic_store_explicit(&ring_chunks(ring, slot)[i], chunk_word(CHUNK_RECOVERED, 0, 0),
                              memory_order_release);
    count_urgent(ring, own->chunk_count);
    ring_wake_loaders(ring, own->chunk_count);
}

bool ring_take_sleeper(struct ring *ring) {
    // Sequentially consistent, as in ring_announce_sleep: either it sees the work, or we see that it is asleep.
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&ring->control->loaders_asleep, memory_order_relaxed) &&
           atomic_exchange(&ring->control->loaders_asleep, 0);
}

static void ask_for_repair(struct ring *ring, uint32_t slot, uint32_t skipped) {
    struct ring_slot *batch = ring_slot(ring, slot);
    ring->dispatched[slot].skipped = skipped;
    __atomic_store_n(&batch->skipped, skipped, __ATOMIC_RELAXED);
    // Pairs with the claiming loader's acquire: it reads `skipped`.
    atomic_store_explicit(&batch->repair, chunk_word(CHUNK_FREE, 0, 0), memory_order_release);
    count_urgent(ring, 1);
    ring_wake_loaders(ring, 1);
}

static enum ring_slot_state poll_repair(struct ring *ring, uint32_t slot) {
    // Sequentially consistent, as the chunks in ring_slot_poll.
    switch (chunk_state(atomic_load(&ring_slot(ring, slot)->repair))) {
    case CHUNK_DONE:
        return RING_SLOT_READY;
    case CHUNK_FAILED:
        return RING_SLOT_FAILED;
    case CHUNK_FREE:
    case CHUNK_CLAIMED:
        return RING_SLOT_FILLING;
    default:
        return RING_SLOT_BROKEN;
    }
}

// A loader that fails while another one is writing down a failure leaves no reason. The other one will report a
// failed chunk too, or be recovered: until then there is no reason to give.
static bool failure_is_being_written(const struct ring *ring) {
    // Sequentially consistent: either this sees it complete, or the loader that completes it sees the supervisor
    // asleep.
    uint32_t state = atomic_load(&ring->control->failure.state);
    return state != 0 && state != RING_FAILURE_COMPLETE;
}

enum ring_slot_state ring_slot_poll(struct ring *ring, uint32_t slot) {
    const struct ring_slot *own = &ring->dispatched[slot];
    _Atomic uint64_t *words = ring_chunks(ring, slot);
    uint64_t skipped = 0;
    bool filling = false;
    for (uint32_t i = 0; i < own->chunk_count; i++) {
        // Sequentially consistent: see wake_wanted and ring_chunk_done. Also makes the loader's bytes visible.
        uint64_t word = atomic_load(&words[i]);
        if (chunk_state(word) == CHUNK_FAILED)
            return failure_is_being_written(ring) ? RING_SLOT_FILLING : RING_SLOT_FAILED;
        if (chunk_state(word) == CHUNK_IDLE || chunk_state(word) > CHUNK_RECOVERED)
            return RING_SLOT_BROKEN;
        filling |= chunk_state(word) != CHUNK_DONE;
        skipped += chunk_skipped(word);
    }
    if (filling)
        return RING_SLOT_FILLING;
    if (ring->header->on_device) // those of the feed's ring were copied
        return skipped ? RING_SLOT_BROKEN : RING_SLOT_READY;
    if (skipped > own->count || (own->skipped && skipped != own->skipped))
        return RING_SLOT_BROKEN;
    if (!skipped)
        return RING_SLOT_READY;
    if (own->skipped)
        return poll_repair(ring, slot);
    if (ring->header->ragged_count)
        return RING_SLOT_LACKING;
    ask_for_repair(ring, slot, (uint32_t)skipped);
    return RING_SLOT_FILLING;
}

void ring_close_up(struct ring *ring, uint32_t slot, uint32_t skipped) {
    ring_places_publish_end(ring, slot);
    ask_for_repair(ring, slot, skipped);
}

static bool is_busy(_Atomic uint64_t *word) {
    // Sequentially consistent: see ring_chunk_done.
    enum chunk_state state = chunk_state(atomic_load(word));
    return state == CHUNK_FREE || state == CHUNK_CLAIMED || state == CHUNK_RECOVERED;
}

bool ring_slot_busy(const struct ring *ring, uint32_t slot) {
    for (uint32_t i = 0; i < ring->dispatched[slot].chunk_count; i++)
        if (is_busy(&ring_chunks(ring, slot)[i]))
            return true;
    return is_busy(&ring_slot(ring, slot)->repair);
}

// -errno, whatever was written.
static int failure_code(const struct ring_failure *failure) {
    int code = __atomic_load_n(&failure->code, __ATOMIC_RELAXED);
    return code < 0 && code > -4096 ? code : -EIO;
}

void ring_forget_failure(struct ring *ring, uint32_t slot) {
    struct ring_failure *failure = &ring->control->failure;
    if (atomic_load_explicit(&failure->state, memory_order_acquire) == RING_FAILURE_COMPLETE &&
        __atomic_load_n(&failure->slot, __ATOMIC_RELAXED) == slot)
        atomic_store_explicit(&failure->state, 0, memory_order_release);
}

bool ring_take_failure(struct ring *ring, struct ring_error *error) {
    struct ring_failure *failure = &ring->control->failure;
    // Pairs with the release in ring_chunk_failed.
    if (atomic_load_explicit(&failure->state, memory_order_acquire) != RING_FAILURE_COMPLETE)
        return false;
    *error = (struct ring_error){
        .code = failure_code(failure),
        .slot = __atomic_load_n(&failure->slot, __ATOMIC_RELAXED),
        .file = __atomic_load_n(&failure->file, __ATOMIC_RELAXED),
        .offset = __atomic_load_n(&failure->offset, __ATOMIC_RELAXED),
        .sample = __atomic_load_n(&failure->sample, __ATOMIC_RELAXED),
    };
    atomic_store_explicit(&failure->state, 0, memory_order_release);
    return true;
}

void ring_supervisor_arm(struct ring *ring) {
    atomic_store(&ring->control->supervisor_asleep, 1);
}

void ring_slot_free(struct ring *ring, uint32_t slot) {
    _Atomic uint64_t *words = ring_chunks(ring, slot);
    for (uint32_t i = 0; i < ring->dispatched[slot].chunk_count; i++)
        atomic_store_explicit(&words[i], chunk_word(CHUNK_IDLE, 0, 0), memory_order_relaxed);
    atomic_store_explicit(&ring_slot(ring, slot)->repair, chunk_word(CHUNK_IDLE, 0, 0), memory_order_relaxed);
}

static bool owned_by(_Atomic uint64_t *word, uint32_t owner) {
    uint64_t seen = atomic_load_explicit(word, memory_order_acquire);
    return chunk_state(seen) == CHUNK_CLAIMED && chunk_owner(seen) == owner;
}

bool ring_slot_claimed_by(const struct ring *ring, uint32_t slot, uint32_t owner) {
    for (uint32_t i = 0; i < ring->dispatched[slot].chunk_count; i++)
        if (owned_by(&ring_chunks(ring, slot)[i], owner))
            return true;
    return owned_by(&ring_slot(ring, slot)->repair, owner);
}

// Unless a loader claims it first. Sequentially consistent: see ring_chunk_done.
static void withdraw(_Atomic uint64_t *word) {
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    if (chunk_state(seen) == CHUNK_FREE || chunk_state(seen) == CHUNK_RECOVERED)
        atomic_compare_exchange_strong(word, &seen, chunk_word(CHUNK_IDLE, 0, 0));
}

void ring_slot_withdraw(struct ring *ring, uint32_t slot) {
    for (uint32_t i = 0; i < ring->dispatched[slot].chunk_count; i++)
        withdraw(&ring_chunks(ring, slot)[i]);
    withdraw(&ring_slot(ring, slot)->repair);
}

// Frees the chunks of one slot that `owner` had. Samples that it had marked as skipped are no longer skipped, but in
// the ring of a device pool nobody would mark them again: there they were copied from the feed's ring.
static uint32_t recover_slot(struct ring *ring, uint32_t slot, uint32_t owner) {
    struct ring_slot *batch = ring_slot(ring, slot);
    const struct ring_slot *own = &ring->dispatched[slot];
    _Atomic uint64_t *words = ring_chunks(ring, slot);
    uint32_t chunk_samples = ring->header->chunk_samples;
    uint32_t freed = 0;
    for (uint32_t i = 0; i < own->chunk_count; i++) {
        if (!owned_by(&words[i], owner))
            continue;
        uint32_t first = i * chunk_samples;
        if (!ring->header->on_device)
            ring_clear_skips(ring, slot, first, (uint32_t)min_u64(chunk_samples, own->count - first));
        // Published by urgent_wanted.
        atomic_fetch_add_explicit(&batch->recovered, 1, memory_order_relaxed);
        // Release: the next owner sees the skip bits cleared.
        atomic_store_explicit(&words[i], chunk_word(CHUNK_RECOVERED, 0, 0), memory_order_release);
        freed++;
    }
    if (owned_by(&batch->repair, owner) && ring->header->ragged_count) {
        freed += ring_read_again(ring, slot);
    } else if (owned_by(&batch->repair, owner)) {
        atomic_store_explicit(&batch->repair, chunk_word(CHUNK_FREE, 0, 0), memory_order_release);
        freed++;
    }
    return freed;
}

void ring_recover_signals(struct ring *ring, uint32_t owner) {
    uint32_t writing = owner;
    atomic_compare_exchange_strong(&ring->control->failure.state, &writing, 0);
    // It may have taken the flag to 0 and died before it wrote the eventfd: then no other loader would write it.
    ring_supervisor_arm(ring);
    // It may have been woken for a chunk that it did not come to claim.
    ring_wake_loaders(ring, 1);
}

int ring_recover(struct ring *ring, uint32_t owner) {
    uint32_t freed = 0;
    ring_recover_signals(ring, owner);
    for (uint32_t slot = 0; slot < ring->header->slot_count; slot++)
        freed += recover_slot(ring, slot, owner);
    count_urgent(ring, freed);
    ring_wake_loaders(ring, freed);
    return (int)freed;
}
