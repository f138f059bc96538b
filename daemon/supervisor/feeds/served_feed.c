#include "daemon/supervisor/feeds/served_feed.h"
#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/pool.h"
#include "order/partition.h"
#include "shm/ring_supervisor.h"
#include "shm/stats.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static const char *const state_names[FEED_STATES] = {"making", "gathering", "running", "closing"};

const char *feed_state_name(enum feed_state state) {
    return state < FEED_STATES ? state_names[state] : "?";
}

void feed_set_state(struct served_feed *feed, enum feed_state state) {
    static const uint8_t allowed[FEED_STATES] = {
        [FEED_MAKING] = 1 << FEED_GATHERING | 1 << FEED_CLOSING,
        [FEED_GATHERING] = 1 << FEED_RUNNING | 1 << FEED_CLOSING,
        [FEED_RUNNING] = 1 << FEED_GATHERING | 1 << FEED_CLOSING,
        [FEED_CLOSING] = 0,
    };
    assert(allowed[feed->state] >> state & 1);
    feed->state = state;
}

// The run begins as early as its batches still fall where this one does: so that other ranks, or others who share the
// feed and stand behind, by epochs even, find their place in the same run.
struct partition feed_partition(const struct feed_shape *shape, uint64_t epoch, uint64_t consumed) {
    uint64_t off_grid = consumed % ((uint64_t)shape->batch_size * shape->world_size);
    return (struct partition){
        .samples = shape->dataset->layout->samples,
        .batch_size = shape->batch_size,
        .world_size = shape->world_size,
        .drop_last = shape->drop_last,
        .start_epoch = off_grid ? epoch : 0,
        .start_sample = off_grid,
    };
}

struct partition feed_run(const struct feed_shape *shape, const struct attach_request *request) {
    struct partition run = feed_partition(shape, request->start_epoch, request->start_consumed);
    struct partition before = run;
    uint64_t sequence;
    before.start_epoch = request->run_epoch;
    before.start_sample = request->run_consumed;
    // A client may say anything: it counts only if its own place is in that run.
    bool possible =
        request->reconnect && request->run_consumed <= run.samples &&
        partition_sequence(&before, request->start_epoch, request->start_consumed, &sequence) == 0;
    return possible ? before : run;
}

// ---- Sessions ----------------------------------------------------------------------------------------------

void feed_gather(struct served_feed *feed, uint32_t wait_for, uint64_t until_ns) {
    feed->wait_for = wait_for;
    feed->gathered = 0;
    feed->gather_until_ns = until_ns;
    if (feed->state != FEED_GATHERING)
        feed_set_state(feed, FEED_GATHERING);
}

void feed_end_gathering(struct served_feed *feed) {
    if (feed->state == FEED_GATHERING)
        feed_set_state(feed, FEED_RUNNING);
}

// Others of its rank, who read the same batches.
static uint32_t count_twins(const struct served_feed *feed, const struct session *session) {
    const struct session *other;
    uint32_t count = 0;
    LIST_FOREACH(other, &feed->sessions, feed_link)
        count += other != session && other->request.rank == session->request.rank;
    return count;
}

void feed_enter(struct served_feed *feed, struct session *session) {
    feed->twins += count_twins(feed, session);
    session->feed = feed;
    LIST_INSERT_HEAD(&feed->sessions, session, feed_link);
    feed->session_count++;
    feed->idle_since_ns = 0;
    feed->gathered++;
    if (feed->gathered >= feed->wait_for)
        feed_end_gathering(feed);
}

static void stop_waiting(struct served_feed *feed, struct consumer *consumer, uint64_t now) {
    if (!consumer->waiting_since_ns)
        return;
    stats_add(&feed->stats->counters[FEED_consumer_wait_ns], now - consumer->waiting_since_ns);
    consumer->waiting_since_ns = 0;
}

void feed_leave(struct served_feed *feed, struct session *session) {
    stop_waiting(feed, &session->consumer, monotonic_ns());
    delivery_leave(session_delivery(session), &session->consumer);
    LIST_REMOVE(session, feed_link);
    feed->session_count--;
    feed->twins -= count_twins(feed, session);
    session->feed = NULL;
    if (session->pool)
        pool_leave(session->pool, session);
    if (LIST_EMPTY(&feed->sessions))
        feed->idle_since_ns = monotonic_ns();
    if (!feed_in_use(feed) && !feed->supervisor->config->linger_s)
        feed_close(feed);
    if (feed->state == FEED_GATHERING)
        feed->gathered--;
    if (feed->state != FEED_CLOSING)
        feed_pump(feed);
}

// ---- Moving ------------------------------------------------------------------------------------------------

static void count_granted(struct served_feed *feed, const struct ring *ring, const uint32_t *slots,
                          uint32_t count) {
    uint64_t samples = 0;
    const struct ring_header *header = ring->header;
    for (uint32_t i = 0; i < count; i++) {
        const struct ring_slot *batch = ring_slot(ring, slots[i]);
        samples += batch->count - batch->skipped;
    }
    stats_add(&feed->stats->counters[FEED_batches], count);
    stats_add(&feed->stats->counters[FEED_samples], samples);
    stats_add(&feed->stats->counters[FEED_bytes],
              samples * ring_sample_bytes(header->fields, header->field_count));
}

static void grant(struct served_feed *feed, struct session *session) {
    uint32_t slots[PROTO_MAX_GRANTS];
    uint64_t sequence = 0;
    uint32_t count;
    struct consumer *consumer = &session->consumer;
    struct delivery *delivery = session_delivery(session);
    while ((count = delivery_grant(delivery, consumer, &sequence, slots, PROTO_MAX_GRANTS)) > 0) {
        Feedd__Grant message = FEEDD__GRANT__INIT;
        message.sequence = sequence;
        message.slots = slots;
        message.n_slots = count;
        message.wait_for = feed->twins ? feed->session_count : 1;
        stop_waiting(feed, consumer, monotonic_ns());
        count_granted(feed, delivery->ring, slots, count);
        Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
        frame.body_case = FEEDD__SERVER_MESSAGE__BODY_GRANT;
        frame.grant = &message;
        session_send(session, &frame.base);
    }
    if (consumer_at_end(consumer) && !session->end_sent) {
        Feedd__End end = FEEDD__END__INIT;
        Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
        frame.body_case = FEEDD__SERVER_MESSAGE__BODY_END;
        frame.end = &end;
        session->end_sent = true;
        session_send(session, &frame.base);
    }
}

static void update_gauges(struct served_feed *feed) {
    const struct delivery *delivery = &feed->delivery;
    uint32_t busy = feed->ring.header->slot_count - delivery->free_count;
    atomic_store_explicit(&feed->stats->slots_ready, delivery->ready_count, memory_order_relaxed);
    atomic_store_explicit(&feed->stats->slots_filling, busy - delivery->ready_count, memory_order_relaxed);
    atomic_store_explicit(&feed->stats->consumers, delivery->consumer_count, memory_order_relaxed);
    atomic_store_explicit(&feed->stats->loaders, feed->loaders_running, memory_order_relaxed);
}

static void fail_with_read_error(struct served_feed *feed) {
    struct ring_error failure;
    if (!ring_take_failure(&feed->ring, &failure) || failure.file >= feed->dataset->layout->file_count) {
        feed_fail(feed, -EIO, "dataset %s: a sample cannot be read", feed->dataset->name);
        return;
    }
    feed_fail(feed, -EIO, "dataset %s: sample %" PRIu64 " cannot be read: %s, offset %" PRIu64 ": %s",
              feed->dataset->name, failure.sample, feed->dataset->paths[failure.file], failure.offset,
              failure.code == -ENODATA ? "the file ends there; it has shrunk since it was opened"
                                       : strerror(-failure.code));
}

// True when the ring has slots to give out again.
static bool pump_pools(const struct served_feed *feed) {
    struct pool *pool;
    bool freed = false;
    // Before all have come nothing goes out to the pools: who comes last has to find the first batch in the ring.
    if (feed->state != FEED_RUNNING)
        return false;
    LIST_FOREACH(pool, &feed->pools, feed_link)
        freed |= pool_pump(pool);
    return freed;
}

void feed_pump(struct served_feed *feed) {
    struct session *session;
    if (feed->state == FEED_CLOSING || feed->state == FEED_MAKING)
        return;
    // First what comes back from pools: it makes room in the ring. Then what goes out to them.
    int err;
    pump_pools(feed);
    do
        err = delivery_pump(&feed->delivery);
    while (!err && pump_pools(feed)); // batches without samples go through at once
    if (err) {
        fail_with_read_error(feed);
        return;
    }
    pace_note(&feed->pace, feed->delivery.completed, monotonic_ns());
    if (feed->state == FEED_RUNNING) {
        LIST_FOREACH(session, &feed->sessions, feed_link)
            grant(feed, session);
    }
    update_gauges(feed);
    LIST_FOREACH(session, &feed->sessions, feed_link)
        session_flush(session);
}

void feed_fail(struct served_feed *feed, int code, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    supervisor_report(feed->supervisor, "feed %" PRIu64 " has failed: %s", feed->id, text);
    struct session *session;
    feed_close(feed);
    feed_refuse(feed, NULL, code, text);
    while ((session = LIST_FIRST(&feed->sessions))) {
        feed_leave(feed, session);
        session_fail(session, code, "%s", text);
    }
}

// ---- Loaders -----------------------------------------------------------------------------------------------

static void count_end(struct served_feed *feed, const struct loader_process *loader) {
    const struct process *process = &loader->process;
    uint64_t now = monotonic_ns();
    char end[128];
    feed->loaders_running--;
    if (process->asked) {
        log_debug("loader %u of feed %" PRIu64 " has ended", loader->serial, feed->id);
        return;
    }
    process_describe_end(process, end, sizeof end);
    supervisor_report(feed->supervisor, "loader %u of feed %" PRIu64 " %s", loader->serial, feed->id, end);
    if (feed->state == FEED_CLOSING)
        return;
    stats_add(&feed->stats->counters[FEED_children_replaced], 1);
    respawn_died(&feed->respawn, now, process_lived_ns(process), loader_process_has_worked(loader));
    if (respawn_has_given_up(&feed->respawn))
        feed_fail(feed, -EIO, "dataset %s: loader processes end as soon as they start; see the daemon's log",
                  feed->dataset->name);
    else
        feed_start_loaders(feed);
}

static void on_loader_changed(struct process *process) {
    struct served_feed *feed = process->owner;
    struct loader_process *loader = loader_process_of(process);
    if (process_is_reaped(process) && !process->end_counted) {
        process->end_counted = true;
        count_end(feed, loader);
    }
    feed_finish_loader(feed, loader);
    feed_free_if_over(feed);
}

static int start_loader(struct served_feed *feed, struct error *error) {
    const struct supervisor *supervisor = feed->supervisor;
    struct loader_process *loader;
    const struct loader_start start = {
        .loop = (uv_loop_t *)&supervisor->loop,
        .stats = supervisor->stats,
        .stats_fd = supervisor->stats_fd,
        .dataset = feed->dataset,
        .feed = feed->id,
        .ring_fd = feed->ring_fd,
        .event_fd = feed->event_fd,
        .serial = feed->next_serial,
        .queue_depth = (uint32_t)supervisor->config->queue_depth,
        .mapped_limit = supervisor->config->mapped_limit,
        .owner = feed,
        .changed = on_loader_changed,
    };
    int err = loader_process_start(&start, &loader, error);
    if (err)
        return err;
    feed->next_serial++;
    feed->loaders_running++;
    LIST_INSERT_HEAD(&feed->children, loader, link);
    return 0;
}

void feed_start_loaders(struct served_feed *feed) {
    struct error error = {0};
    uint64_t now = monotonic_ns();
    if (feed->state == FEED_CLOSING || !respawn_may_start(&feed->respawn, now))
        return;
    while (feed->loaders_running < feed->loaders_wanted) {
        if (start_loader(feed, &error) == 0)
            continue;
        supervisor_report(feed->supervisor, "feed %" PRIu64 ": %s", feed->id, error.text);
        respawn_unspawned(&feed->respawn, now);
        return;
    }
}

// Takes its chunks back; false when there is no room to queue them again yet.
static bool recover(struct served_feed *feed, uint32_t serial) {
    if (feed->state == FEED_CLOSING)
        return true;
    int chunks = ring_recover(&feed->ring, serial);
    if (chunks < 0)
        return false;
    if (chunks > 0)
        log_info("feed %" PRIu64 ": %d chunks of loader %u are read again", feed->id, chunks, serial);
    feed_pump(feed);
    return true;
}

void feed_finish_loader(struct served_feed *feed, struct loader_process *loader) {
    if (loader->process.state != PROCESS_GONE || !recover(feed, loader->serial))
        return;
    LIST_REMOVE(loader, link);
    loader_process_retire(loader, feed->stats);
}

// ---- Ending ------------------------------------------------------------------------------------------------

static void free_feed(struct served_feed *feed) {
    struct supervisor *supervisor = feed->supervisor;
    LIST_REMOVE(feed, link);
    supervisor->feed_count--;
    delivery_close(&feed->delivery);
    ring_unmap(&feed->ring);
    close_fd(&feed->ring_fd);
    close_fd(&feed->ring_read_fd);
    close_fd(&feed->event_fd);
    if (feed->stats) {
        stats_feed_write_begin(feed->stats);
        feed->stats->id = 0;
        stats_feed_write_end(feed->stats);
    }
    log_info("feed %" PRIu64 " of dataset %s is closed", feed->id, feed->dataset->name);
    dataset_unref(feed->dataset);
    free(feed);
    supervisor_check_done(supervisor);
}

void feed_free_if_over(struct served_feed *feed) {
    if (feed->state == FEED_CLOSING && !feed->making && !feed->event_open && LIST_EMPTY(&feed->children) &&
        LIST_EMPTY(&feed->sessions) && LIST_EMPTY(&feed->pools))
        free_feed(feed);
}

static void on_event_closed(uv_handle_t *handle) {
    struct served_feed *feed = handle->data;
    feed->event_open = false;
    feed_free_if_over(feed);
}

void feed_close(struct served_feed *feed) {
    struct loader_process *loader;
    struct pool *pool, *next;
    if (feed->state == FEED_CLOSING)
        return;
    feed_set_state(feed, FEED_CLOSING);
    feed->supervisor->ring_bytes -= feed->ring_bytes;
    LIST_FOREACH(loader, &feed->children, link)
        process_stop(&loader->process);
    for (pool = LIST_FIRST(&feed->pools); pool; pool = next) {
        next = LIST_NEXT(pool, feed_link);
        pool_close(pool);
    }
    if (feed->event_open)
        uv_close((uv_handle_t *)&feed->event, on_event_closed);
}
