// The loader's side of the ring: claim a chunk, report it, close holes, sleep.
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/sizes.h"
#include "shm/holes.h"
#include "shm/ragged_repair.h"
#include "shm/ring_loader.h"
#include "shm/ring_words.h"

// Whatever another loader has written into the record, the samples of a claim lie inside the slot.
static uint32_t samples_of(const struct ring *ring, const struct ring_slot *batch, uint32_t first) {
    uint32_t count = __atomic_load_n(&batch->count, __ATOMIC_RELAXED);
    bool possible =
        count > first || ring->header->on_device; // there, a batch without samples has a chunk too
    return possible && count <= ring->header->batch_size ? count : ring->header->batch_size;
}

static void describe_claim(const struct ring *ring, uint32_t slot, uint32_t chunk, struct ring_claim *claim) {
    const struct ring_slot *batch = ring_slot(ring, slot);
    bool repair = chunk == RING_REPAIR_CHUNK;
    uint32_t first = repair ? 0 : chunk * ring->header->chunk_samples;
    uint32_t left = samples_of(ring, batch, first) - first;
    *claim = (struct ring_claim){
        .slot = slot,
        .chunk = chunk,
        .first_sample = first,
        .count = repair ? left : (uint32_t)min_u64(ring->header->chunk_samples, left),
        .chunk_count = (uint32_t)min_u64(batch->chunk_count, ring->header->chunks_per_slot),
        .epoch = batch->epoch,
        .first_position = batch->first_position + first,
    };
}

// To CLAIMED. The acquire pairs with the supervisor's release of FREE or RECOVERED: the slot's description is in
// place. If the word was claimed, finished and freed again since it was seen, this claims what is there now, which
// is as good.
static bool take_seen(_Atomic uint64_t *word, uint64_t seen, uint32_t owner) {
    if (!atomic_compare_exchange_strong_explicit(word, &seen, chunk_word(CHUNK_CLAIMED, owner, 0),
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    // A detached client that still reads the slot's last batch, and reads bytes that are put there from here on, finds
    // the new name that came with FREE. Pairs with the fence in leases_still_ours.
    atomic_thread_fence(memory_order_release);
    return true;
}

static bool take(_Atomic uint64_t *word, uint32_t owner) {
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    return (chunk_state(seen) == CHUNK_FREE || chunk_state(seen) == CHUNK_RECOVERED) &&
           take_seen(word, seen, owner);
}

static bool take_recovered(_Atomic uint64_t *word, uint32_t owner) {
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    return chunk_state(seen) == CHUNK_RECOVERED && take_seen(word, seen, owner);
}

// Over the chunk words of any batch, because the slot's description may be read only after a claim; beyond the
// batch's chunks they are IDLE.
static bool claim_in_slot(const struct ring *ring, uint32_t slot, uint32_t owner, uint32_t *chunk) {
    struct ring_slot *batch = ring_slot(ring, slot);
    *chunk = RING_REPAIR_CHUNK;
    if (take(&batch->repair, owner))
        return true;
    if (atomic_load_explicit(&batch->recovered, memory_order_relaxed) == 0)
        return false;
    for (*chunk = 0; *chunk < ring->header->chunks_per_slot; ++*chunk)
        if (take_recovered(&ring_chunks(ring, slot)[*chunk], owner))
            return true;
    return false;
}

// Jobs that batches wait for which are nearly complete: repairs, and the chunks of loaders that died.
//
// None is lost: the supervisor makes the word FREE or RECOVERED before it counts the job in urgent_wanted. A
// loader that acquires a count sees every job counted in it, and `recovered` of its slot, unless somebody has
// claimed the job since. It remembers the count only when a scan that began afterwards has found nothing, so every
// job counted has been claimed by then. If its new owner dies too, the job is counted again.
static bool claim_urgent(struct ring *ring, uint32_t owner, struct ring_claim *claim) {
    uint32_t chunk, wanted = atomic_load_explicit(&ring->control->urgent_wanted, memory_order_acquire);
    if (wanted == ring->urgent_seen)
        return false;
    for (uint32_t slot = 0; slot < ring->header->slot_count; slot++) {
        if (!claim_in_slot(ring, slot, owner, &chunk))
            continue;
        describe_claim(ring, slot, chunk, claim);
        return true;
    }
    ring->urgent_seen = wanted;
    return false;
}

// A head that is further ahead than the queue is long: either the cursor was read long ago, or somebody has written
// over the ring. The supervisor saw a cursor with room before it published that head, so read after the head, the
// cursor of an intact ring has moved. Without this look, a loader could walk over entries that are not there for
// years.
static bool cursor_moved(struct ring_control *control, uint64_t *cursor) {
    uint64_t seen = *cursor;
    *cursor = atomic_load_explicit(&control->claim_cursor, memory_order_relaxed);
    return *cursor != seen;
}

// The first chunk of the loader's own stripe that can be claimed.
static bool claim_own(const struct ring *ring, uint32_t slot, uint32_t owner, uint32_t *chunk) {
    const uint64_t chunks = ring->header->chunks_per_slot;
    if (!ring->stripes)
        return false;
    uint32_t end = (uint32_t)(chunks * (ring->stripe + 1ull) / ring->stripes);
    for (uint32_t i = (uint32_t)(chunks * ring->stripe / ring->stripes); i < end; i++)
        if (take(&ring_chunks(ring, slot)[i], owner)) {
            *chunk = i;
            return true;
        }
    return false;
}

// Urgent jobs first, then the queue: of the batch at the cursor, the loader's own stripe, then what is at the cursor.
// So each loader mostly writes to the same memory, which its core's caches have; where two cores share none, taking
// lines from each other costs a quarter of the rate (bench/README.md).
//
// The cursor only says where to look: whoever finds a chunk that cannot be claimed moves it on, and a claim is
// good whatever has become of the queue entry meanwhile, because the chunk word alone decides it. The cursor never
// passes over a FREE chunk: only dispatch makes one, before it publishes the entry, and the acquire of queue_head
// makes that visible. It may pass over a chunk that becomes RECOVERED later: that one is found by claim_urgent.
bool ring_claim(struct ring *ring, uint32_t owner, struct ring_claim *claim) {
    struct ring_control *control = ring->control;
    const uint32_t chunks_per_slot = ring->header->chunks_per_slot;
    if (claim_urgent(ring, owner, claim))
        return true;
    uint64_t cursor = atomic_load_explicit(&control->claim_cursor, memory_order_relaxed);
    for (;;) {
        uint64_t entry = cursor / chunks_per_slot;
        const uint32_t front = (uint32_t)(cursor % chunks_per_slot);
        uint32_t chunk = front;
        // Pairs with the release in queue_slot.
        uint64_t head = atomic_load_explicit(&control->queue_head, memory_order_acquire);
        if (entry >= head)
            return false;
        if (head - entry > ring->header->queue_entries) {
            if (!cursor_moved(control, &cursor))
                return false;
            continue;
        }
        uint32_t slot = atomic_load_explicit(ring_queue_entry(ring, entry), memory_order_relaxed);
        bool won = slot < ring->header->slot_count &&
                   (claim_own(ring, slot, owner, &chunk) || take(&ring_chunks(ring, slot)[front], owner));
        // Release: the entry was read before the supervisor sees that it is passed and puts another one in its
        // place. Pairs with the acquire in queue_room.
        if (chunk == front &&
            atomic_compare_exchange_strong_explicit(&control->claim_cursor, &cursor, cursor + 1,
                                                    memory_order_release, memory_order_relaxed))
            cursor++;
        if (won) {
            describe_claim(ring, slot, chunk, claim);
            return true;
        }
    }
}

void ring_take_stripe(struct ring *ring, uint64_t word) {
    const uint32_t stripe = (uint32_t)word, stripes = (uint32_t)(word >> 32);
    ring->stripe = stripe < stripes ? stripe : 0;
    ring->stripes = stripe < stripes ? stripes : 0;
}

void ring_skip_sample(struct ring *ring, const struct ring_claim *claim, uint32_t sample) {
    // Relaxed: others read it only after this chunk is DONE.
    atomic_fetch_or_explicit(&ring_skips(ring, claim->slot)[sample / 64], 1ull << (sample % 64),
                             memory_order_relaxed);
}

static bool wake_wanted(struct ring *ring) {
    // Sequentially consistent, like the store in ring_supervisor_arm: either the supervisor sees the word DONE or
    // FAILED when it looks after arming, or this sees that it is armed.
    return atomic_exchange(&ring->control->supervisor_asleep, 0) == 1;
}

bool ring_chunk_done(struct ring *ring, const struct ring_claim *claim, uint32_t skipped) {
    if (claim->chunk == RING_REPAIR_CHUNK) {
        atomic_store(&ring_slot(ring, claim->slot)->repair, chunk_word(CHUNK_DONE, 0, skipped));
        return wake_wanted(ring);
    }
    _Atomic uint64_t *words = ring_chunks(ring, claim->slot);
    atomic_store(&words[claim->chunk], chunk_word(CHUNK_DONE, 0, skipped));
    // The last of several loaders to finish sees that the others have ended, because all of these accesses are
    // sequentially consistent. FAILED counts, and so does what was withdrawn: the supervisor also waits for the
    // end of a batch that failed, or that nobody wants.
    for (uint32_t i = 0; i < claim->chunk_count; i++)
        if (!chunk_ended(atomic_load(&words[i])))
            return false;
    return wake_wanted(ring);
}

bool ring_chunk_failed(struct ring *ring, const struct ring_claim *claim, int code, uint32_t file,
                       uint64_t offset, uint64_t sample) {
    struct ring_failure *failure = &ring->control->failure;
    _Atomic uint64_t *word = claim->chunk == RING_REPAIR_CHUNK
                                 ? &ring_slot(ring, claim->slot)->repair
                                 : &ring_chunks(ring, claim->slot)[claim->chunk];
    uint32_t owner = chunk_owner(atomic_load_explicit(word, memory_order_relaxed));
    uint32_t first = 0;
    if (atomic_compare_exchange_strong(&failure->state, &first, owner)) {
        failure->code = code;
        failure->file = file;
        failure->slot = claim->slot;
        failure->offset = offset;
        failure->sample = sample;
        // Pairs with the acquire in ring_take_failure. Sequentially consistent, like the word below, because
        // ring_slot_poll looks at it after arming: see failure_is_being_written.
        atomic_store(&failure->state, RING_FAILURE_COMPLETE);
    }
    atomic_store(word, chunk_word(CHUNK_FAILED, 0, 0));
    return wake_wanted(ring);
}

static void copy_sample(const struct ring *ring, uint32_t slot, uint32_t to, uint32_t from) {
    uint8_t *data = ring_slot_data(ring, slot);
    for (uint32_t i = 0; i < ring->header->field_count; i++) {
        const struct ring_field *field = &ring->header->fields[i];
        uint8_t *array = data + field->slot_offset;
        memcpy(array + to * field->sample_bytes, array + from * field->sample_bytes, field->sample_bytes);
    }
}

int ring_repair(struct ring *ring, const struct ring_claim *claim) {
    const struct ring_slot *batch = ring_slot(ring, claim->slot);
    uint32_t count = samples_of(ring, batch, 0);
    if (ring->header->ragged_count)
        return ragged_repair(ring, claim, count);
    uint32_t skipped = (uint32_t)min_u64(__atomic_load_n(&batch->skipped, __ATOMIC_RELAXED), count);
    struct holes holes = holes_of(ring_skips(ring, claim->slot), count - skipped, count);
    // Sources are never written, so doing it again from the start changes nothing.
    while (holes_next(&holes))
        copy_sample(ring, claim->slot, holes.hole, holes.source);
    return 0;
}

bool ring_announce_sleep(struct ring *ring) {
    struct ring_control *control = ring->control;
    // Sequentially consistent against those who make work and then look at the flag (ring_wake_loaders,
    // ring_take_sleeper): they see us asleep, or we see their work. An exchange, so that what was queued before
    // the flag was last taken back is visible.
    atomic_exchange(&control->loaders_asleep, 1);
    return atomic_load(&control->claim_cursor) / ring->header->chunks_per_slot <
               atomic_load(&control->queue_head) ||
           atomic_load(&control->urgent_wanted) != ring->urgent_seen;
}

// Relaxed: what it misses is found after the announcement.
static bool sees_work(const struct ring *ring) {
    const struct ring_control *control = ring->control;
    uint64_t cursor = atomic_load_explicit(&control->claim_cursor, memory_order_relaxed);
    return cursor / ring->header->chunks_per_slot <
               atomic_load_explicit(&control->queue_head, memory_order_relaxed) ||
           atomic_load_explicit(&control->urgent_wanted, memory_order_relaxed) != ring->urgent_seen;
}

void ring_wait_for_work(struct ring *ring, int timeout_ms) {
    struct ring_control *control = ring->control;
    // Announced in vain, it would cost the supervisor a call to the kernel for each batch.
    if (sees_work(ring))
        return;
    uint32_t work = atomic_load(&control->work);
    if (ring_announce_sleep(ring))
        return;
    struct timespec limit = {.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L};
    syscall(SYS_futex, &control->work, FUTEX_WAIT, work, &limit, NULL, 0);
}
