// The supervisor's side of the ring: fill slots, see batches complete, take back the work of a dead loader.
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "base/sizes.h"
#include "order/partition.h"
#include "shm/ring_supervisor.h"
#include "shm/ring_words.h"

uint64_t ring_unclaimed(const struct ring *ring) {
    const struct ring_header *header = ring->header;
    uint64_t begun =
        divide_up(atomic_load_explicit(&header->claim_cursor, memory_order_relaxed), header->chunks_per_slot);
    uint64_t head = atomic_load_explicit(&header->queue_head, memory_order_relaxed);
    return head - min_u64(begun, head);
}

static uint64_t queue_room(const struct ring *ring) {
    const struct ring_header *header = ring->header;
    // Pairs with the release of a loader that moves the cursor: it has read the entries that are passed.
    uint64_t passed =
        atomic_load_explicit(&header->claim_cursor, memory_order_acquire) / header->chunks_per_slot;
    uint64_t head = atomic_load_explicit(&header->queue_head, memory_order_relaxed);
    return header->queue_entries - (head - min_u64(passed, head));
}

// The queue has room for every slot twice, and dispatch alone puts a slot into it, once per batch. It can still
// fill up: a loader that dies between claiming a chunk and moving the cursor leaves the cursor at an entry that is
// spent once the recovered chunk is done. When the slot is dispatched again, the next loader can claim its first
// chunk by way of that old entry and die in the same place, and so on, an entry per death. Nobody who would tell
// of it walks over such entries: the supervisor passes over them itself, and a queue that stays full has a FREE
// chunk in front, whose batch will be finished with a wake-up. A RECOVERED chunk can be passed over: loaders find
// it without the queue.
static bool make_queue_room(struct ring *ring) {
    struct ring_header *header = ring->header;
    uint64_t cursor = atomic_load_explicit(&header->claim_cursor, memory_order_relaxed);
    while (queue_room(ring) == 0) {
        uint32_t slot = atomic_load_explicit(ring_queue_entry(ring, cursor / header->chunks_per_slot),
                                             memory_order_relaxed);
        _Atomic uint64_t *word = &ring_chunks(ring, slot)[cursor % header->chunks_per_slot];
        // Only the supervisor makes a chunk FREE, so one that is not FREE stays so meanwhile.
        if (chunk_state(atomic_load_explicit(word, memory_order_relaxed)) == CHUNK_FREE)
            return false;
        if (atomic_compare_exchange_strong_explicit(&header->claim_cursor, &cursor, cursor + 1,
                                                    memory_order_relaxed, memory_order_relaxed))
            cursor++;
    }
    return true;
}

// The release publishes the slot's description and FREE words with the entry; pairs with ring_claim.
static void queue_slot(struct ring *ring, uint32_t slot) {
    uint64_t head = atomic_load_explicit(&ring->header->queue_head, memory_order_relaxed);
    atomic_store_explicit(ring_queue_entry(ring, head), slot, memory_order_relaxed);
    atomic_store_explicit(&ring->header->queue_head, head + 1, memory_order_release);
}

static void clear_skips(struct ring *ring, uint32_t slot, uint32_t first, uint32_t count) {
    _Atomic uint64_t *skips = ring_skips(ring, slot);
    for (uint32_t sample = first; sample < first + count; sample++)
        atomic_fetch_and_explicit(&skips[sample / 64], ~(1ull << (sample % 64)), memory_order_relaxed);
}

static void clear_all_skips(struct ring *ring, uint32_t slot) {
    _Atomic uint64_t *skips = ring_skips(ring, slot);
    for (uint32_t i = 0; i < ring->header->skip_words; i++)
        atomic_store_explicit(&skips[i], 0, memory_order_relaxed);
}

// Before anything else of the slot is written. A client that holds the slot's last batch without knowing that it was
// taken back compares the name after it has read: the fence pairs with the acquire fence in leases_still_ours, so that
// a read of anything that follows here finds the new name.
static void name_batch(struct ring_slot *batch, const struct ring_batch *name) {
    __atomic_store_n(&batch->run, name->run, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->rank, name->rank, __ATOMIC_RELAXED);
    __atomic_store_n(&batch->sequence, name->sequence, __ATOMIC_RELAXED);
    atomic_thread_fence(memory_order_release);
}

bool ring_dispatch_copy(struct ring *ring, uint32_t slot, const struct ring *from, uint32_t source,
                        uint64_t unread) {
    if (!make_queue_room(ring))
        return false;
    struct ring_slot *batch = ring_slot(ring, slot);
    const struct ring_slot *original = ring_slot(from, source);
    name_batch(batch, &(struct ring_batch){original->run, original->rank, original->sequence});
    clear_all_skips(ring, slot);
    for (uint32_t i = 0; original->skipped && i < ring->header->skip_words; i++)
        atomic_store_explicit(&ring_skips(ring, slot)[i],
                              atomic_load_explicit(&ring_skips(from, source)[i], memory_order_relaxed),
                              memory_order_relaxed);
    batch->epoch = original->epoch;
    batch->index = original->index;
    batch->first_position = original->first_position;
    batch->consumed = original->consumed;
    batch->count = original->count;
    batch->skipped = original->skipped;
    batch->last_of_epoch = original->last_of_epoch;
    atomic_store_explicit(&batch->recovered, 0, memory_order_relaxed); // published with the chunk
    batch->chunk_count = 1; // even without samples: consumers' streams wait for its sequence word
    batch->fill++;
    batch->source = source;
    atomic_store_explicit(&batch->unread, unread, memory_order_relaxed); // published with the chunk
    // Release, as in ring_dispatch.
    atomic_store_explicit(&ring_chunks(ring, slot)[0], chunk_word(CHUNK_FREE, 0, 0), memory_order_release);
    queue_slot(ring, slot);
    return true;
}

static void describe_batch(struct ring *ring, uint32_t slot, const struct ring_batch *name,
                           const struct batch_place *place) {
    struct ring_slot *batch = ring_slot(ring, slot);
    name_batch(batch, name);
    // Whatever batch->skipped says: it was never set for a batch that failed.
    clear_all_skips(ring, slot);
    batch->epoch = place->epoch;
    batch->index = place->index;
    batch->first_position = place->first_position;
    batch->consumed = place->consumed;
    batch->count = (uint32_t)place->count;
    batch->skipped = 0;
    batch->chunk_count = (uint32_t)divide_up(place->count, ring->header->chunk_samples);
    batch->last_of_epoch = place->last_of_epoch;
    atomic_store_explicit(&batch->recovered, 0, memory_order_relaxed); // published with the chunks
}

bool ring_dispatch(struct ring *ring, uint32_t slot, const struct ring_batch *name,
                   const struct batch_place *place) {
    if (!make_queue_room(ring))
        return false;
    const struct ring_slot *batch = ring_slot(ring, slot);
    describe_batch(ring, slot, name, place);
    _Atomic uint64_t *words = ring_chunks(ring, slot);
    for (uint32_t i = 0; i < batch->chunk_count; i++)
        // Release: a loader may take this chunk before it sees the queue entry, by way of an old entry of the
        // slot.
        atomic_store_explicit(&words[i], chunk_word(CHUNK_FREE, 0, 0), memory_order_release);
    if (batch->chunk_count)
        queue_slot(ring, slot);
    return true;
}

void ring_wake_loaders(struct ring *ring, uint32_t chunks) {
    struct ring_header *header = ring->header;
    // Pairs with ring_wait_for_work. The flag first, then the futex word: a loader whose flag is taken back here
    // has read the old word, so it cannot fall asleep on the new one without a flag.
    if (!chunks || !atomic_exchange(&header->loaders_asleep, 0))
        return;
    atomic_fetch_add(&header->work, 1);
    long woken = syscall(SYS_futex, &header->work, FUTEX_WAKE, (int)min_u64(chunks, INT_MAX), NULL, NULL, 0);
    if (woken >= (long)chunks)
        atomic_store(&header->loaders_asleep, 1); // perhaps others are still asleep
}

// Pairs with claim_urgent, which sees what was made FREE or RECOVERED before. Sequentially consistent: see
// ring_announce_sleep.
static void count_urgent(struct ring *ring, uint32_t jobs) {
    atomic_fetch_add(&ring->header->urgent_wanted, jobs);
}

void ring_dispatch_again(struct ring *ring, uint32_t slot, const struct ring_batch *name,
                         const struct batch_place *place) {
    struct ring_slot *batch = ring_slot(ring, slot);
    describe_batch(ring, slot, name, place);
    atomic_store_explicit(&batch->recovered, batch->chunk_count, memory_order_relaxed);
    for (uint32_t i = 0; i < batch->chunk_count; i++)
        // Release, as in ring_dispatch.
        atomic_store_explicit(&ring_chunks(ring, slot)[i], chunk_word(CHUNK_RECOVERED, 0, 0),
                              memory_order_release);
    count_urgent(ring, batch->chunk_count);
    ring_wake_loaders(ring, batch->chunk_count);
}

bool ring_take_sleeper(struct ring *ring) {
    // Sequentially consistent, as in ring_announce_sleep: either it sees the work, or we see that it is asleep.
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_load_explicit(&ring->header->loaders_asleep, memory_order_relaxed) &&
           atomic_exchange(&ring->header->loaders_asleep, 0);
}

static enum ring_slot_state poll_repair(struct ring *ring, struct ring_slot *batch, uint32_t skipped) {
    // Sequentially consistent, as the chunks in ring_slot_poll.
    switch (chunk_state(atomic_load(&batch->repair))) {
    case CHUNK_DONE:
        return RING_SLOT_READY;
    case CHUNK_FAILED:
        return RING_SLOT_FAILED;
    case CHUNK_IDLE:
        batch->skipped = skipped;
        // Pairs with the claiming loader's acquire: it reads `skipped`.
        atomic_store_explicit(&batch->repair, chunk_word(CHUNK_FREE, 0, 0), memory_order_release);
        count_urgent(ring, 1);
        ring_wake_loaders(ring, 1);
        return RING_SLOT_FILLING;
    default:
        return RING_SLOT_FILLING;
    }
}

// A loader that fails while another one is writing down a failure leaves no reason. The other one will report a
// failed chunk too, or be recovered: until then there is no reason to give.
static bool failure_is_being_written(const struct ring *ring) {
    // Sequentially consistent: either this sees it complete, or the loader that completes it sees the supervisor
    // asleep.
    uint32_t state = atomic_load(&ring->header->failure.state);
    return state != 0 && state != RING_FAILURE_COMPLETE;
}

enum ring_slot_state ring_slot_poll(struct ring *ring, uint32_t slot) {
    struct ring_slot *batch = ring_slot(ring, slot);
    _Atomic uint64_t *words = ring_chunks(ring, slot);
    uint32_t skipped = 0;
    bool filling = false;
    for (uint32_t i = 0; i < batch->chunk_count; i++) {
        // Sequentially consistent: see wake_wanted and ring_chunk_done. Also makes the loader's bytes visible.
        uint64_t word = atomic_load(&words[i]);
        if (chunk_state(word) == CHUNK_FAILED)
            return failure_is_being_written(ring) ? RING_SLOT_FILLING : RING_SLOT_FAILED;
        filling |= chunk_state(word) != CHUNK_DONE;
        skipped += chunk_skipped(word);
    }
    if (filling)
        return RING_SLOT_FILLING;
    return skipped ? poll_repair(ring, batch, skipped) : RING_SLOT_READY;
}

static bool is_busy(_Atomic uint64_t *word) {
    // Sequentially consistent: see ring_chunk_done.
    enum chunk_state state = chunk_state(atomic_load(word));
    return state == CHUNK_FREE || state == CHUNK_CLAIMED || state == CHUNK_RECOVERED;
}

bool ring_slot_busy(const struct ring *ring, uint32_t slot) {
    struct ring_slot *batch = ring_slot(ring, slot);
    for (uint32_t i = 0; i < batch->chunk_count; i++)
        if (is_busy(&ring_chunks(ring, slot)[i]))
            return true;
    return is_busy(&batch->repair);
}

void ring_forget_failure(struct ring *ring, uint32_t slot) {
    struct ring_failure *failure = &ring->header->failure;
    if (atomic_load_explicit(&failure->state, memory_order_acquire) == RING_FAILURE_COMPLETE &&
        failure->slot == slot)
        atomic_store_explicit(&failure->state, 0, memory_order_release);
}

bool ring_take_failure(struct ring *ring, struct ring_error *error) {
    struct ring_failure *failure = &ring->header->failure;
    // Pairs with the release in ring_chunk_failed.
    if (atomic_load_explicit(&failure->state, memory_order_acquire) != RING_FAILURE_COMPLETE)
        return false;
    *error = (struct ring_error){
        .code = failure->code,
        .slot = failure->slot,
        .file = failure->file,
        .offset = failure->offset,
        .sample = failure->sample,
    };
    atomic_store_explicit(&failure->state, 0, memory_order_release);
    return true;
}

void ring_supervisor_arm(struct ring *ring) {
    atomic_store(&ring->header->supervisor_asleep, 1);
}

void ring_slot_free(struct ring *ring, uint32_t slot) {
    struct ring_slot *batch = ring_slot(ring, slot);
    _Atomic uint64_t *words = ring_chunks(ring, slot);
    for (uint32_t i = 0; i < batch->chunk_count; i++)
        atomic_store_explicit(&words[i], chunk_word(CHUNK_IDLE, 0, 0), memory_order_relaxed);
    atomic_store_explicit(&batch->repair, chunk_word(CHUNK_IDLE, 0, 0), memory_order_relaxed);
}

static bool owned_by(_Atomic uint64_t *word, uint32_t owner) {
    uint64_t seen = atomic_load_explicit(word, memory_order_acquire);
    return chunk_state(seen) == CHUNK_CLAIMED && chunk_owner(seen) == owner;
}

bool ring_slot_claimed_by(const struct ring *ring, uint32_t slot, uint32_t owner) {
    struct ring_slot *batch = ring_slot(ring, slot);
    for (uint32_t i = 0; i < batch->chunk_count; i++)
        if (owned_by(&ring_chunks(ring, slot)[i], owner))
            return true;
    return owned_by(&batch->repair, owner);
}

// Unless a loader claims it first. Sequentially consistent: see ring_chunk_done.
static void withdraw(_Atomic uint64_t *word) {
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    if (chunk_state(seen) == CHUNK_FREE || chunk_state(seen) == CHUNK_RECOVERED)
        atomic_compare_exchange_strong(word, &seen, chunk_word(CHUNK_IDLE, 0, 0));
}

void ring_slot_withdraw(struct ring *ring, uint32_t slot) {
    struct ring_slot *batch = ring_slot(ring, slot);
    for (uint32_t i = 0; i < batch->chunk_count; i++)
        withdraw(&ring_chunks(ring, slot)[i]);
    withdraw(&batch->repair);
}

// Frees the chunks of one slot that `owner` had. Samples that it had marked as skipped in them are no longer
// skipped, but in the ring of a device pool nobody would mark them again: there they were copied from the feed's
// ring.
static uint32_t recover_slot(struct ring *ring, uint32_t slot, uint32_t owner) {
    struct ring_slot *batch = ring_slot(ring, slot);
    _Atomic uint64_t *words = ring_chunks(ring, slot);
    uint32_t chunk_samples = ring->header->chunk_samples;
    uint32_t freed = 0;
    for (uint32_t i = 0; i < batch->chunk_count; i++) {
        if (!owned_by(&words[i], owner))
            continue;
        uint32_t first = i * chunk_samples;
        if (!ring->header->on_device)
            clear_skips(ring, slot, first, (uint32_t)min_u64(chunk_samples, batch->count - first));
        // Published by urgent_wanted.
        atomic_fetch_add_explicit(&batch->recovered, 1, memory_order_relaxed);
        // Release: the next owner sees the skip bits cleared.
        atomic_store_explicit(&words[i], chunk_word(CHUNK_RECOVERED, 0, 0), memory_order_release);
        freed++;
    }
    if (owned_by(&batch->repair, owner)) {
        atomic_store_explicit(&batch->repair, chunk_word(CHUNK_FREE, 0, 0), memory_order_release);
        freed++;
    }
    return freed;
}

void ring_recover_signals(struct ring *ring, uint32_t owner) {
    uint32_t writing = owner;
    atomic_compare_exchange_strong(&ring->header->failure.state, &writing, 0);
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
