#include "daemon/supervisor/feeds/pool.h"
#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "shm/ring_supervisor.h"
#include "shm/stats.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#define LAG_REPORTS_NS (2500 * NS_PER_MS) // they come once a second

static void set_state(struct pool *pool, enum pool_state state) {
    static const uint8_t allowed[POOL_STATES] = {
        [POOL_WAITING] = 1 << POOL_OPENING | 1 << POOL_CLOSING,
        [POOL_OPENING] = 1 << POOL_OPEN | 1 << POOL_WAITING | 1 << POOL_CLOSING,
        [POOL_OPEN] = 1 << POOL_WAITING | 1 << POOL_CLOSING,
        [POOL_CLOSING] = 0,
    };
    assert(allowed[pool->state] >> state & 1);
    pool->state = state;
}

// ---- Consumers ---------------------------------------------------------------------------------------------

// Sealed: a consumer that cut it short would make our reading of it fault.
static int make_words(const struct pool *pool, int *fd, struct error *error) {
    AUTO_CLOSE int words = memfd_create("feedd-release-words", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (words < 0)
        return error_set(error, -errno, "cannot make a consumer's release words: %m");
    uint64_t bytes = align_up(ring_slot_words_bytes(pool->ring.header), RING_PAGE);
    int err = posix_fallocate(words, 0, (off_t)bytes);
    if (!err && fcntl(words, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        err = errno;
    if (err)
        return error_set(error, -err, "cannot make a consumer's release words: %s", strerror(err));
    *fd = words;
    words = -1;
    return 0;
}

static void introduce(const struct pool *pool, const struct session *session) {
    struct transfer_request request = {
        .kind = TRANSFER_ADD_CONSUMER, .pool = pool->id, .consumer = session->consumer.bit};
    device_send(pool->device, &request, &session->words_fd, 1);
}

int pool_enter(struct pool *pool, struct session *session, struct error *error) {
    uint64_t taken = pool->words | pool->leaving;
    if (taken == UINT64_MAX)
        return error_set(error, -EBUSY, "the feed has %u consumers on GPU %s already, the most it can",
                         RING_MAX_CONSUMERS, pool->device->uuid);
    int err = make_words(pool, &session->words_fd, error);
    if (err)
        return err;
    session->consumer.bit = (uint32_t)__builtin_ctzll(~taken);
    pool->words |= 1ull << session->consumer.bit;
    pool->idle_since_ns = 0;
    session->pool = pool;
    session->entered_ns = monotonic_ns();
    session->stalling_since_ns = session->stalling_heard_ns = 0;
    introduce(pool, session);
    return 0;
}

static void free_if_over(struct pool *pool) {
    struct served_feed *feed = pool->feed;
    struct device *device = pool->device;
    if (pool->state != POOL_CLOSING || pool->known || pool->words || pool->telling)
        return;
    LIST_REMOVE(pool, feed_link);
    LIST_REMOVE(pool, device_link);
    if (LIST_EMPTY(&device->pools))
        device->idle_since_ns = monotonic_ns();
    pool_count(device);
    pool_discard(pool);
    // The copies that were under way have kept slots of the ring.
    if (feed->state != FEED_CLOSING)
        feed_pump(feed);
    feed_free_if_over(feed);
}

void pool_leave(struct pool *pool, struct session *session) {
    struct transfer_request request = {
        .kind = TRANSFER_REMOVE_CONSUMER, .pool = pool->id, .consumer = session->consumer.bit};
    uint64_t word = 1ull << session->consumer.bit;
    // What is dispatched in the ring overtakes messages: nobody else has this word before the transfer process has
    // let go of it.
    if (pool->known && device_send(pool->device, &request, NULL, 0))
        pool->leaving |= word;
    pool->words &= ~word;
    session->pool = NULL;
    close_fd(&session->words_fd);
    if (!pool->words)
        pool->idle_since_ns = monotonic_ns();
    free_if_over(pool);
}

// ---- Opening -----------------------------------------------------------------------------------------------

void pool_ask(struct pool *pool) {
    struct transfer_request request = {.kind = TRANSFER_OPEN_POOL,
                                       .pool = pool->id,
                                       .owner = pool->owner + 1,
                                       .memory_bytes = pool->memory_bytes};
    const int fds[] = {pool->feed->ring_read_fd, pool->ring_fd, pool->feed->event_fd, pool->memory_fd};
    const struct session *session;
    if (pool->device->state != GPU_RUNNING || pool->state != POOL_WAITING || pool->unrecovered)
        return;
    set_state(pool, POOL_OPENING);
    pool->owner++;
    pool->known = true;
    device_send(pool->device, &request, fds, pool->memory_fd >= 0 ? 4 : 3);
    LIST_FOREACH(session, &pool->feed->sessions, feed_link)
        if (session->pool == pool)
            introduce(pool, session);
}

void pool_opened(struct pool *pool, uint64_t memory_bytes, int fd) {
    AUTO_CLOSE int memory_fd = fd;
    if (pool->state != POOL_OPENING)
        return; // closed meanwhile
    if (pool->memory_fd < 0 && memory_fd < 0) {
        pool_fail(pool, -EPROTO, "a transfer process made a pool without its descriptor");
        return;
    }
    if (pool->memory_fd < 0) {
        pool->memory_fd = memory_fd;
        pool->memory_bytes = memory_bytes;
        memory_fd = -1;
    }
    set_state(pool, POOL_OPEN);
    pool->crashes = 0;
    log_info("feed %" PRIu64 " has a pool of %" PRIu32 " batches on GPU %s", pool->feed->id,
             pool->ring.header->slot_count, pool->device->uuid);
    feed_admit(pool->feed);
    if (pool->feed->state != FEED_CLOSING)
        feed_pump(pool->feed);
}

void pool_removed(struct pool *pool, uint32_t consumer) {
    if (consumer < RING_MAX_CONSUMERS)
        pool->leaving &= ~(1ull << consumer);
}

static struct session *find_session(const struct pool *pool, uint32_t consumer) {
    struct session *session;
    LIST_FOREACH(session, &pool->feed->sessions, feed_link)
        if (session->pool == pool && session->consumer.bit == consumer)
            return session;
    return NULL;
}

void pool_refused(struct pool *pool, uint32_t consumer, int code, const char *text) {
    struct session *session = find_session(pool, consumer);
    if (session)
        session_fail(session, code < 0 ? code : -EIO, "%s", text);
}

// Reported every second as long as copies wait for its stream. What counts is how long others have waited for that.
void pool_lagging(struct pool *pool, uint32_t consumer, uint64_t waited_ns) {
    struct served_feed *feed = pool->feed;
    struct session *laggard = find_session(pool, consumer);
    uint64_t now = monotonic_ns();
    if (!laggard || waited_ns > now - laggard->entered_ns)
        return; // it was said of one who had that word before
    bool goes_on = now < laggard->stalling_heard_ns + LAG_REPORTS_NS;
    laggard->stalling_heard_ns = now;
    if (!tap_stalls(&pool->delivery, &laggard->consumer))
        laggard->stalling_since_ns = 0;
    else if (!goes_on || !laggard->stalling_since_ns)
        laggard->stalling_since_ns = now;
    if (!laggard->stalling_since_ns || now - laggard->stalling_since_ns < feed->max_lag_ns)
        return;
    stats_add(&feed->stats->counters[FEED_consumers_detached], 1);
    session_fail(laggard, -ETIME,
                 "this consumer's stream on GPU %s released no batch for %" PRIu64
                 " s while others of the shared feed waited for it (max_lag), and was detached",
                 pool->device->uuid, feed->max_lag_ns / NS_PER_S);
}

// ---- Ending ------------------------------------------------------------------------------------------------

static void recover(struct pool *pool) {
    int copies = ring_recover(&pool->ring, pool->owner);
    pool->unrecovered = copies < 0; // the queue is full: the next tick tries again
    if (copies > 0)
        log_info("feed %" PRIu64 ": %d copies to GPU %s are made again", pool->feed->id, copies,
                 pool->device->uuid);
}

void pool_transfer_died(struct pool *pool) {
    pool->known = false;
    pool->leaving = 0;
    pool->crashes += pool->state == POOL_OPENING;
    if (pool->state == POOL_CLOSING) {
        free_if_over(pool);
        return;
    }
    if (pool->state != POOL_WAITING)
        set_state(pool, POOL_WAITING);
    // It is reaped: its context is gone, and with it the copies it had queued. Who comes next does them again, with
    // the same bytes into the same slots.
    pool->unrecovered = true;
    recover(pool);
    feed_pump(pool->feed);
}

void pool_closed(struct pool *pool) {
    pool->known = false;
    free_if_over(pool);
}

void pool_close(struct pool *pool) {
    struct transfer_request request = {.kind = TRANSFER_CLOSE_POOL, .pool = pool->id};
    if (pool->state == POOL_CLOSING)
        return;
    set_state(pool, POOL_CLOSING);
    if (pool->known)
        device_send(pool->device, &request, NULL, 0);
    free_if_over(pool);
}

void pool_fail(struct pool *pool, int code, const char *text) {
    struct served_feed *feed = pool->feed;
    struct session *session, *next;
    if (pool->telling || pool->state == POOL_CLOSING)
        return;
    pool->telling = true;
    supervisor_report(feed->supervisor, "feed %" PRIu64 " has no pool on GPU %s: %s", feed->id,
                      pool->device->uuid, text);
    feed_refuse(feed, pool->device->uuid, code, text);
    for (session = LIST_FIRST(&feed->sessions); session; session = next) {
        next = LIST_NEXT(session, feed_link);
        // The last one that leaves may close the feed, and its pools, but for this one.
        if (session->pool == pool)
            session_fail(session, code, "%s", text);
    }
    pool->telling = false;
    if (pool->state == POOL_CLOSING)
        free_if_over(pool);
    else
        pool_close(pool);
}

// ---- Moving ------------------------------------------------------------------------------------------------

bool pool_pump(struct pool *pool) {
    struct delivery *delivery = &pool->delivery;
    const struct delivery *feed = &pool->feed->delivery;
    uint32_t free_before = feed->free_count;
    if (pool->state == POOL_CLOSING || delivery_pump(delivery) < 0)
        return false; // a transfer process fails as a whole, never with one batch
    if (ring_take_sleeper(&pool->ring))
        device_wake(pool->device);
    return feed->free_count > free_before;
}

void pool_watch(struct pool *pool, uint64_t now) {
    const struct supervisor *supervisor = pool->feed->supervisor;
    uint64_t linger = supervisor->config->linger_s * NS_PER_S;
    if (pool->unrecovered) {
        recover(pool);
        pool_ask(pool);
    }
    if (pool->idle_since_ns && !pool_is_awaited(pool) && now >= pool->idle_since_ns + linger)
        pool_close(pool);
}
