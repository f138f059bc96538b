// Handing out batches and giving them back. In the steady state feed_next takes from the queue of grants
// without a system call, and releases travel several in one message.
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "client/lib/handle.h"

// ---- Releases -----------------------------------------------------------------------------------

// Tells the daemon what was given back, and whether it is us who wait now.
static void send_release(struct feed *feed, bool waiting) {
    Feedd__Release release = FEEDD__RELEASE__INIT;
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_RELEASE;
    message.release = &release;
    while (feed->returned_count > 0 || waiting) {
        uint32_t count = (uint32_t)min_u64(feed->returned_count, PROTO_MAX_GRANTS);
        uint32_t *slots = feed->returned + feed->returned_count - count;
        release.slots = slots;
        release.n_slots = count;
        release.waiting = waiting && count == feed->returned_count;
        if (connection_send(&feed->connection, &message) < 0)
            return; // the daemon does not read: what is unsent stays where it is until it does
        for (uint32_t i = 0; i < count; i++)
            feed->leases[slots[i]].state = LEASE_NONE;
        feed->returned_count -= count;
        if (release.waiting) {
            feed->waiting = true;
            return;
        }
    }
}

// A quarter of the credits in one message: few messages, and the daemon always has most of them to work with.
// At once when somebody may be waiting for just this one: us, or at the end of the run those who share the
// feed.
static bool release_is_due(const struct feed *feed) {
    return feed->waiting || feed->ended || feed->returned_count >= max_u64(feed->description.prefetch / 4, 1);
}

// False when the slot has been given to another batch: the daemon detached us and took everything back.
static bool still_ours(const struct feed *feed, uint32_t slot, uint64_t sequence) {
    // Keeps the application's reads of the batch before the look at the slot. The slot's record is written
    // before loaders may fill the slot again, so bytes that were overwritten under the application's eyes are
    // found out here.
    atomic_thread_fence(memory_order_acquire);
    const struct ring_slot *record = ring_slot(&feed->ring, slot);
    return __atomic_load_n(&record->sequence, __ATOMIC_RELAXED) == sequence &&
           __atomic_load_n(&record->rank, __ATOMIC_RELAXED) == feed->request.options.rank;
}

static int taken_back(struct feed *feed);

static int not_held(struct feed *feed, const struct feed_batch *batch) {
    return error_set(&feed->error, -EINVAL, "batch %llu in slot %u is not held: released twice?",
                     (unsigned long long)batch->sequence, batch->slot);
}

FEED_API int feed_batch_wait(struct feed *feed, const struct feed_batch *batch, void *stream) {
    const struct mapped_pool *pool;
    const struct ring *ring = feed_ring_of(feed, batch, &pool);
    if (!ring)
        return not_held(feed, batch);
    if (!feed->gpu)
        return 0;
    return mapped_pool_wait(pool, ring, batch->slot, batch->fill, stream, &feed->error);
}

FEED_API int feed_batch_fetch(struct feed *feed, const struct feed_batch *batch, uint32_t field, void *to) {
    if (!feed_ring_of(feed, batch, NULL))
        return not_held(feed, batch);
    if (field >= batch->field_count)
        return error_set(&feed->error, -EINVAL, "field %u of a batch of %u fields", field,
                         batch->field_count);
    const struct feed_array *array = &batch->field[field];
    if (feed->gpu)
        return gpu_copy_out(feed->gpu, to, (uint64_t)(uintptr_t)array->data, array->bytes, &feed->error);
    memcpy(to, array->data, array->bytes);
    return 0;
}

FEED_API int feed_batch_release(struct feed *feed, const struct feed_batch *batch, void *stream) {
    if (feed->leases && batch->generation != feed->generation)
        return feed_release_past(feed, batch);
    if (!feed->leases || !feed_ring_of(feed, batch, NULL))
        return not_held(feed, batch);
    if (feed->gpu) {
        int lost = mapped_pool_release(&feed->pool, batch->slot, batch->fill, stream, &feed->error);
        if (lost)
            return lost; // still held
    }
    feed->held--;
    feed->leases[batch->slot].state = LEASE_RETURNED;
    feed->returned[feed->returned_count++] = batch->slot;
    if (feed->lost_until_ns)
        return 0; // nobody is there to be told, or to take anything back
    if (!still_ours(feed, batch->slot, batch->sequence))
        return taken_back(feed);
    if (!feed->failed && release_is_due(feed))
        send_release(feed, feed->waiting);
    return 0;
}

// ---- Grants -------------------------------------------------------------------------------------

static int take_grant(struct feed *feed, const Feedd__Grant *grant) {
    const char *socket = feed->request.socket;
    if (feed->ended)
        return feed_fail(feed, -EPROTO, "feedd on %s granted a batch after the end", socket);
    if (grant->sequence != feed->next_sequence)
        return feed_fail(feed, -EPROTO, "feedd on %s granted batch %llu after batch %llu", socket,
                         (unsigned long long)grant->sequence, (unsigned long long)feed->next_sequence);
    for (size_t i = 0; i < grant->n_slots; i++) {
        uint32_t slot = grant->slots[i];
        if (slot >= feed->description.slots)
            return feed_fail(feed, -EPROTO, "feedd on %s granted slot %u of %u", socket, slot,
                             feed->description.slots);
        if (feed->leases[slot].state != LEASE_NONE)
            return feed_fail(feed, -EPROTO, "feedd on %s granted slot %u twice", socket, slot);
        if (feed->held + feed->queue_count + feed->returned_count >= feed->description.prefetch)
            return feed_fail(feed, -EPROTO, "feedd on %s granted more than the %u batches agreed", socket,
                             feed->description.prefetch);
        feed->leases[slot] = (struct lease){feed->next_sequence++, LEASE_QUEUED};
        uint32_t place = (feed->queue_first + feed->queue_count++) % feed->description.prefetch;
        feed->queue[place] = slot;
    }
    feed->waiting = feed->waiting && grant->n_slots == 0;
    feed->wait_for = grant->wait_for;
    return 0;
}

static int take_message(struct feed *feed, const Feedd__ServerMessage *message) {
    switch (message->body_case) {
    case FEEDD__SERVER_MESSAGE__BODY_GRANT:
        return take_grant(feed, message->grant);
    case FEEDD__SERVER_MESSAGE__BODY_END:
        feed->ended = true;
        return 0;
    case FEEDD__SERVER_MESSAGE__BODY_ERROR: {
        int err = connection_refusal(message->error, &feed->error);
        if (err == -EAGAIN || err == -ENOBUFS) // feed_next says other things by these
            err = feed->error.code = -EIO;
        return feed_lost(feed, err) ? -EAGAIN : (feed->failed = err);
    }
    default:
        return feed_fail(feed, -EPROTO, "feedd on %s sent message %d out of turn", feed->request.socket,
                         message->body_case);
    }
}

// Takes one message if there is one by the deadline: 1, 0 none, -EAGAIN the daemon is lost and looked for, or
// the error that ends the handle.
static int receive_one(struct feed *feed, uint64_t deadline) {
    const Feedd__ServerMessage *message;
    int got = connection_receive(&feed->connection, &message, deadline, &feed->error);
    if (got < 0 && feed_lost(feed, got))
        return -EAGAIN;
    if (got <= 0)
        return feed->failed = got;
    int taken = take_message(feed, message);
    return taken < 0 ? taken : 1;
}

// The daemon has given one of our slots away; it must have said why.
static int taken_back(struct feed *feed) {
    while (!feed->failed && receive_one(feed, DEADLINE_NOW) == 1)
        ;
    if (!feed->failed)
        feed_fail(feed, -EPROTO, "feedd on %s reused a slot that this consumer holds", feed->request.socket);
    return feed->failed;
}

// ---- Batches ------------------------------------------------------------------------------------

static void fill_arrays(const struct feed *feed, struct feed_batch *batch) {
    const uint8_t *data = feed->gpu
                              ? (const uint8_t *)(uintptr_t)(feed->pool.memory.address +
                                                             batch->slot * feed->ring.header->slot_bytes)
                              : ring_slot_data(&feed->ring, batch->slot);
    const struct ring_field *fields = feed->ring.header->fields;
    batch->field_count = feed->description.field_count;
    for (uint32_t i = 0; i < batch->field_count; i++) {
        struct feed_array *array = &batch->field[i];
        *array = feed->description.field[i];
        array->data = data + fields[i].slot_offset;
        array->shape[0] = batch->count;
        array->bytes = batch->count * fields[i].sample_bytes;
    }
}

// Hands out the oldest granted batch.
static int pop(struct feed *feed, struct feed_batch *batch) {
    uint32_t slot = feed->queue[feed->queue_first];
    struct lease *lease = &feed->leases[slot];
    const struct ring_slot *record = ring_slot(&feed->ring, slot);
    if (!still_ours(feed, slot, lease->sequence))
        return taken_back(feed);
    // Read once: what is checked is what is used, whatever is written there meanwhile.
    uint32_t count = __atomic_load_n(&record->count, __ATOMIC_RELAXED);
    uint32_t skipped = __atomic_load_n(&record->skipped, __ATOMIC_RELAXED);
    if (count > feed->ring.header->batch_size || skipped > count)
        return feed_fail(feed, -EPROTO,
                         "slot %u of the ring holds %u samples, %u of them skipped, of %u possible", slot,
                         count, skipped, feed->ring.header->batch_size);

    batch->count = count - skipped;
    batch->skipped = skipped;
    batch->epoch = record->epoch;
    batch->index = record->index;
    batch->first_position = record->first_position;
    batch->last_of_epoch = record->last_of_epoch != 0;
    batch->slot = slot;
    batch->sequence = lease->sequence;
    batch->generation = feed->generation;
    batch->fill = record->fill;
    fill_arrays(feed, batch);

    feed->epoch = record->last_of_epoch ? record->epoch + 1 : record->epoch;
    feed->consumed = record->last_of_epoch ? 0 : record->consumed;
    feed->queue_first = (feed->queue_first + 1) % feed->description.prefetch;
    feed->queue_count--;
    feed->held++;
    lease->state = LEASE_HELD;
    return 1;
}

// Before sleeping: gives back what is pending and says that we wait, once.
static void announce_waiting(struct feed *feed) {
    if (!feed->waiting || feed->returned_count > 0)
        send_release(feed, true);
}

// Reads until there is a batch in the queue, the run is over, or the deadline passes. 1, 0, -EAGAIN, or
// failed.
static int wait_for_grant(struct feed *feed, int timeout_ms) {
    uint64_t limit = deadline_after_ms(timeout_ms);
    uint64_t deadline = DEADLINE_NOW;
    bool announced = false;
    while (!feed->ended) {
        int got = feed->lost_until_ns ? feed_reconnect(feed, limit) : receive_one(feed, deadline);
        if (got == -EAGAIN)
            continue; // lost just now
        if (got < 0)
            return got;
        if (feed->lost_until_ns)
            return error_set(&feed->error, -EAGAIN, "feedd on %s is gone; looking for it",
                             feed->request.socket);
        if (feed->queue_count > 0)
            return 1;
        if (got == 1)
            continue;
        if (feed->held == feed->description.prefetch)
            return error_set(&feed->error, -ENOBUFS,
                             "all %u batches this consumer may hold are held: release one first", feed->held);
        if (!announced)
            announce_waiting(feed);
        if (announced || timeout_ms == 0)
            return error_set(&feed->error, -EAGAIN, "no batch was ready within %d ms", timeout_ms);
        announced = true;
        deadline = limit;
    }
    if (feed->returned_count > 0)
        send_release(feed, false);
    return 0;
}

FEED_API int feed_next(struct feed *feed, struct feed_batch *batch, int timeout_ms) {
    if (feed->failed)
        return feed->failed;
    if (feed->queue_count == 0 || feed->lost_until_ns) {
        int ready = wait_for_grant(feed, timeout_ms);
        if (ready != 1)
            return ready;
    }
    return pop(feed, batch);
}

FEED_API int feed_fd(const struct feed *feed) {
    return feed->connection.socket;
}
