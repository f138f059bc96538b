#include "client/lib/handle.h"

#include <string.h>

#include "base/sizes.h"
#include "base/states.h"
#include "base/time.h"
#include "client/lib/batch.h"
#include "client/lib/leases.h"
#include "gpu/gpu_cuda_ranges.h"

#define DEFAULT_CONNECT_MS 30000
#define REASON_NS          (NS_PER_S / 2) // for the daemon's reason to arrive after it took a slot back

static const struct state states[] = {
    [HANDLE_NEW] = {"new", STATE(HANDLE_ATTACHED) | STATE(HANDLE_FAILED)},
    [HANDLE_ATTACHED] = {"attached", STATE(HANDLE_LOST) | STATE(HANDLE_ENDED) | STATE(HANDLE_FAILED)},
    [HANDLE_LOST] = {"lost", STATE(HANDLE_ATTACHED) | STATE(HANDLE_FAILED)},
    [HANDLE_ENDED] = {"ended", STATE(HANDLE_FAILED)},
    [HANDLE_FAILED] = {"failed", 0},
};
static const struct state_table table = STATE_TABLE("libfeed handle", states);

static void become(struct feed *feed, enum handle_state state) {
    feed->state = (enum handle_state)state_next(&table, feed->state, state);
}

// Ends the handle with the error that feed->error tells.
static int fail(struct feed *feed, int err) {
    become(feed, HANDLE_FAILED);
    return feed->failed = err;
}

// ---- Opening and closing ------------------------------------------------------------------------

// Before the daemon is asked: if a GPU cannot be used from this process, that is a local matter.
static int open_device(struct feed *feed, const char *device) {
    char uuid[GPU_UUID_BYTES];
    if (!device || !*device || strcmp(device, "cpu") == 0)
        return 0;
    int err = gpu_resolve(device, uuid, &feed->error);
    return err ? err : gpu_open(&feed->gpu, uuid, &feed->error);
}

FEED_API int feed_open_view(struct feed **out, const struct feed_options *options,
                            const struct feed_view *view) {
    struct feed *feed = *out = calloc(1, sizeof *feed);
    if (!feed)
        return -ENOMEM;
    int timeout_ms = options->connect_timeout_ms ? options->connect_timeout_ms : DEFAULT_CONNECT_MS;
    int err = open_request_copy(&feed->request, options, view, &feed->error);
    if (!err)
        err = open_device(feed, options->device);
    if (!err)
        err = reconnect_first(&feed->now, &feed->request, feed->gpu, deadline_after_ms(timeout_ms),
                              &feed->error);
    if (err)
        return fail(feed, err);
    feed->error = (struct error){0}; // of attempts that failed
    describe(&feed->described, feed->now, feed->gpu);
    become(feed, HANDLE_ATTACHED);
    return 0;
}

FEED_API int feed_open(struct feed **out, const struct feed_options *options) {
    return feed_open_view(out, options, NULL);
}

FEED_API void feed_close(struct feed *feed) {
    if (!feed)
        return;
    while (feed->now) {
        struct attachment *attachment = feed->now;
        feed->now = attachment->past;
        attachment_close(attachment);
    }
    if (feed->gpu)
        gpu_close(feed->gpu);
    open_request_free(&feed->request);
    free(feed);
}

// ---- What the daemon says -----------------------------------------------------------------------

// The connection broke, or the daemon sent an error. -EAGAIN: it is lost, and we look for it.
static int lose(struct feed *feed, int err) {
    if (feed->state != HANDLE_ATTACHED || !reconnect_is_wanted(&feed->request, err))
        return fail(feed, err);
    reconnect_begin(&feed->reconnect, feed->now);
    become(feed, HANDLE_LOST);
    return -EAGAIN;
}

static int take_grant(struct feed *feed, const Feedd__Grant *grant) {
    int err = feed->state == HANDLE_ENDED
                  ? error_set(&feed->error, -EPROTO, "feedd on %s granted a batch after the end",
                              feed->request.socket)
                  : leases_grant(feed->now, grant, &feed->error);
    return err ? fail(feed, err) : 1;
}

static int take_slot_memory(struct feed *feed, const Feedd__SlotMemory *memory) {
    int err = feed->state == HANDLE_ENDED
                  ? error_set(&feed->error, -EPROTO, "feedd on %s gave memory to a slot after the end",
                              feed->request.socket)
                  : leases_grow_slot(feed->now, memory, &feed->error);
    return err ? fail(feed, err) : 1;
}

static int take_end(struct feed *feed) {
    if (feed->state != HANDLE_ENDED)
        become(feed, HANDLE_ENDED);
    return 1;
}

static int take_error(struct feed *feed, const Feedd__Error *message) {
    int err = connection_refusal(message, &feed->error);
    if (err == -EAGAIN || err == -ENOBUFS) // these mean something else when feed_next() returns them
        err = feed->error.code = -EIO;
    return lose(feed, err);
}

static int take_message(struct feed *feed, const Feedd__ServerMessage *message) {
    switch (message->body_case) {
    case FEEDD__SERVER_MESSAGE__BODY_GRANT:
        return take_grant(feed, message->grant);
    case FEEDD__SERVER_MESSAGE__BODY_SLOT_MEMORY:
        return take_slot_memory(feed, message->slot_memory);
    case FEEDD__SERVER_MESSAGE__BODY_END:
        return take_end(feed);
    case FEEDD__SERVER_MESSAGE__BODY_ERROR:
        return take_error(feed, message->error);
    default:
        return fail(feed, error_set(&feed->error, -EPROTO, "feedd on %s sent message %d out of turn",
                                    feed->request.socket, message->body_case));
    }
}

// Takes one message if one arrives by the deadline: 1, 0 none, -EAGAIN the daemon is lost and we look for it, or the
// error that ends the handle.
static int receive_one(struct feed *feed, uint64_t deadline) {
    const Feedd__ServerMessage *message;
    int got = connection_receive(&feed->now->connection, &message, deadline, &feed->error);
    if (got == 0)
        return 0;
    return got < 0 ? lose(feed, got) : take_message(feed, message);
}

// The daemon gave one of our slots away. Its reason may be waiting on the socket behind grants, or still be on its way.
// -EAGAIN: it has also ended the connection, without a reason, so we look for it; else the error that ends the handle.
static int taken_back(struct feed *feed) {
    uint64_t deadline = monotonic_ns() + REASON_NS;
    int got = 1;
    while (feed->state != HANDLE_FAILED && got == 1)
        got = receive_one(feed, deadline);
    if (feed->state == HANDLE_FAILED)
        return feed->failed;
    if (feed->state == HANDLE_LOST)
        return -EAGAIN;
    return fail(feed, error_set(&feed->error, -EPROTO, "feedd on %s reused a slot that this consumer holds",
                                feed->request.socket));
}

// ---- The next batch -----------------------------------------------------------------------------

// As reconnect_try.
static int look_for_daemon(struct feed *feed, uint64_t deadline) {
    int got = reconnect_try(&feed->reconnect, &feed->now, feed->gpu, deadline, &feed->error);
    if (got < 0)
        return got == -EINTR ? got : fail(feed, got);
    if (got == 1) {
        describe(&feed->described, feed->now, feed->gpu);
        feed->error = (struct error){0};
        become(feed, HANDLE_ATTACHED);
    }
    return got;
}

// Before sleeping: gives back what is pending and says that we wait, once.
static void announce_waiting(struct attachment *now) {
    if (!now->waiting || now->returned_count > 0)
        leases_send(now, true);
}

// Reads until there is a batch in the queue, the run is over, or the time is up. 1, 0, -EAGAIN, or the error that ends
// the handle.
static int wait_for_grant(struct feed *feed, int timeout_ms, uint64_t limit) {
    uint64_t deadline = DEADLINE_NOW; // what has arrived already comes first
    bool announced = false;
    while (feed->state != HANDLE_ENDED) {
        int got = feed->state == HANDLE_LOST ? look_for_daemon(feed, limit) : receive_one(feed, deadline);
        if (got == -EAGAIN) { // lost just now; another daemon has to be told that we wait
            announced = false;
            deadline = DEADLINE_NOW;
            continue;
        }
        if (got < 0)
            return got;
        if (feed->state == HANDLE_LOST)
            return error_set(&feed->error, -EAGAIN, "feedd on %s is gone; looking for it",
                             feed->request.socket);
        struct attachment *now = feed->now;
        if (now->queue_count > 0)
            return 1;
        if (got == 1)
            continue;
        if (now->held == now->prefetch)
            return error_set(&feed->error, -ENOBUFS,
                             "all %u batches this consumer may hold are held: release one first", now->held);
        if (!announced)
            announce_waiting(now);
        if (announced || timeout_ms == 0)
            return error_set(&feed->error, -EAGAIN, "no batch was ready within %d ms", timeout_ms);
        announced = true;
        deadline = limit;
    }
    leases_send(feed->now, false);
    return 0;
}

FEED_API int feed_next(struct feed *feed, struct feed_batch *batch, int timeout_ms) {
    if (feed->state == HANDLE_FAILED)
        return feed->failed;
    uint64_t limit = deadline_after_ms(timeout_ms);
    int taken;
    do {
        if (feed->state == HANDLE_LOST || feed->now->queue_count == 0) {
            gpu_range_begin("feedd: wait for a batch");
            int ready = wait_for_grant(feed, timeout_ms, limit);
            gpu_range_end();
            if (ready != 1)
                return ready;
        }
        taken = batch_finish(feed->now, &feed->error);
        if (!taken)
            taken = batch_take(feed->now, feed->described.about.field, batch, &feed->error);
        if (taken < 0)
            return fail(feed, taken);
        if (taken == 0)
            taken = taken_back(feed);
    } while (taken == -EAGAIN);
    return taken;
}

// ---- Batches in hand ----------------------------------------------------------------------------

static int not_held(struct feed *feed, const struct feed_batch *batch) {
    return error_set(&feed->error, -EINVAL, "batch %llu in slot %u is not held: released twice?",
                     (unsigned long long)batch->sequence, batch->slot);
}

FEED_API int feed_batch_wait(struct feed *feed, const struct feed_batch *batch, void *stream) {
    struct attachment **holder = attachment_of(&feed->now, batch);
    if (!holder)
        return not_held(feed, batch);
    if (!feed->gpu)
        return 0;
    int err =
        mapped_pool_wait(&(*holder)->pool, &(*holder)->ring, batch->slot, batch->fill, stream, &feed->error);
    if (!err && (*holder)->finisher.count)
        err = finisher_wait(&(*holder)->finisher, batch->slot, batch->fill, stream, &feed->error);
    return err;
}

static int fetch(struct feed *feed, const void *from, size_t bytes, void *to) {
    if (feed->gpu)
        return bytes ? gpu_copy_out(feed->gpu, to, (uint64_t)(uintptr_t)from, bytes, &feed->error) : 0;
    memcpy(to, from, bytes);
    return 0;
}

// What is finished in this process may not be done yet.
static int settle(struct feed *feed, const struct feed_batch *batch) {
    const struct attachment *holder = *attachment_of(&feed->now, batch);
    return holder->finisher.count ? finisher_settle(&holder->finisher, batch->slot, batch->fill, &feed->error)
                                  : 0;
}

static int check_field(struct feed *feed, const struct feed_batch *batch, uint32_t field) {
    if (!attachment_of(&feed->now, batch))
        return not_held(feed, batch);
    return field < batch->field_count ? 0
                                      : error_set(&feed->error, -EINVAL, "field %u of a batch of %u fields",
                                                  field, batch->field_count);
}

FEED_API int feed_batch_fetch(struct feed *feed, const struct feed_batch *batch, uint32_t field, void *to) {
    int err = check_field(feed, batch, field);
    if (!err)
        err = settle(feed, batch);
    return err ? err : fetch(feed, batch->field[field].data, batch->field[field].bytes, to);
}

FEED_API int feed_batch_fetch_offsets(struct feed *feed, const struct feed_batch *batch, uint32_t field,
                                      int64_t *to) {
    int err = check_field(feed, batch, field);
    if (err)
        return err;
    const struct feed_array *array = &batch->field[field];
    if (!array->ragged)
        return error_set(&feed->error, -EINVAL, "field %s is not ragged", array->name);
    return fetch(feed, array->offsets, (batch->count + 1) * sizeof *to, to);
}

// The slot must not be filled again while images are still made of it, whether or not the application has looked at
// them.
static int order_release(struct feed *feed, const struct attachment *now, const struct feed_batch *batch,
                         void *stream) {
    if (!now->finisher.count || stream == FEED_EVERY_STREAM)
        return 0;
    if (stream == FEED_NO_STREAM)
        return settle(feed, batch);
    return finisher_wait(&now->finisher, batch->slot, batch->fill, stream, &feed->error);
}

// Nobody is there to be told. The attachment goes with its last lease.
static int release_past(struct attachment **place, const struct feed_batch *batch, bool on_gpu) {
    struct attachment *past = *place;
    int err = on_gpu || leases_still_ours(past, batch->slot) ? 0 : -ETIME;
    leases_return(past, batch->slot);
    if (past->held > 0)
        return err;
    *place = past->past;
    attachment_close(past);
    return err;
}

FEED_API int feed_batch_release(struct feed *feed, const struct feed_batch *batch, void *stream) {
    struct attachment **holder = attachment_of(&feed->now, batch);
    if (!holder)
        return not_held(feed, batch);
    struct attachment *now = *holder;
    if (now != feed->now)
        return release_past(holder, batch, feed->gpu != NULL);
    if (feed->gpu) {
        int err = order_release(feed, now, batch, stream);
        if (!err)
            err = mapped_pool_release(&now->pool, batch->slot, batch->fill, stream, &feed->error);
        if (err)
            return err; // still held
    }
    leases_return(now, batch->slot);
    bool ours = leases_still_ours(now, batch->slot);
    // Nobody is there to be told. The daemon may live on and have given the memory back; feed_strerror() keeps the
    // reason. It frees rings, and leaves pools to the clients that map them.
    if (feed->state == HANDLE_LOST)
        return ours || feed->gpu ? 0 : -ETIME;
    if (feed->state == HANDLE_FAILED)
        return ours ? 0 : -ETIME;
    if (!ours) {
        int err = taken_back(feed);
        return err == -EAGAIN ? -ETIME : err;
    }
    // At the end of the run others who share the feed may be waiting for just this one.
    if (feed->state == HANDLE_ENDED || (feed->state == HANDLE_ATTACHED && leases_are_due(now)))
        leases_send(now, now->waiting);
    return 0;
}

// In a child after a fork also while another thread of the parent was attaching again.
FEED_API int feed_fd(const struct feed *feed) {
    const struct attachment *fresh = feed->reconnect.fresh;
    if (fresh && fresh->connection.socket >= 0)
        return fresh->connection.socket;
    return feed->now ? feed->now->connection.socket : -1;
}

FEED_API const char *feed_strerror(const struct feed *feed) {
    return feed ? feed->error.text : "out of memory";
}
