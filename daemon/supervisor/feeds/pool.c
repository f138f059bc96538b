#include "daemon/supervisor/feeds/pool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/states.h"
#include "base/time.h"
#include "daemon/on_error.h"
#include "daemon/supervisor/feeds/pool_growth.h"
#include "shm/ring_supervisor.h"

#define CRASHES_MOST   5u                 // while opening one pool
#define LAG_REPORTS_NS (2500 * NS_PER_MS) // they come once per second

static const struct state states[] = {
    [POOL_WAITING] = {"waiting", STATE(POOL_OPENING) | STATE(POOL_CLOSING)},
    [POOL_OPENING] = {"opening", STATE(POOL_OPEN) | STATE(POOL_WAITING) | STATE(POOL_CLOSING)},
    [POOL_OPEN] = {"open", STATE(POOL_WAITING) | STATE(POOL_CLOSING)},
    [POOL_CLOSING] = {"closing", 0},
};
static const struct state_table table = STATE_TABLE("pool", states);

static void set_state(struct pool *pool, enum pool_state state) {
    pool->state = (enum pool_state)state_next(&table, pool->state, state);
}

static struct pool *pool_of(struct tenant *tenant) {
    return CONTAINER_OF(tenant, struct pool, tenant);
}

// ---- Consumers ---------------------------------------------------------------------------------------------

// Sealed, because a consumer that truncated it would make the transfer process fault when it reads the words.
static int make_words(const struct pool *pool, int *fd, struct error *error) {
    AUTO_CLOSE int words = memfd_create("feedd-release-words", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (words < 0)
        return error_set(error, -errno, "cannot create a consumer's release words: %m");
    uint64_t bytes = align_up(ring_slot_words_bytes(pool->ring.header), RING_PAGE);
    int err = posix_fallocate(words, 0, (off_t)bytes);
    if (!err && fcntl(words, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        err = errno;
    if (err)
        return error_set(error, -err, "cannot create a consumer's release words: %s", strerror(err));
    *fd = words;
    words = -1;
    return 0;
}

static void introduce(struct pool *pool, const struct member *member) {
    struct transfer_request request = {
        .kind = TRANSFER_ADD_CONSUMER, .pool = pool->tenant.id, .consumer = member->consumer.bit};
    device_send(pool->tenant.device, &request, &member->words_fd, 1);
}

int pool_enter(struct pool *pool, struct member *member, struct error *error) {
    uint64_t taken = pool->bits | pool->leaving;
    if (taken == UINT64_MAX)
        return error_set(error, -EBUSY, "the feed already has %u consumers on GPU %s, the maximum",
                         RING_MAX_CONSUMERS, pool->tenant.device->uuid);
    int err = make_words(pool, &member->words_fd, error);
    if (err)
        return err;
    err = pool_growth_enter(pool, member, error);
    if (err) {
        close_fd(&member->words_fd);
        return err;
    }
    member->consumer.bit = (uint32_t)__builtin_ctzll(~taken);
    pool->bits |= 1ull << member->consumer.bit;
    pool->idle_since_ns = 0;
    member->pool = pool;
    member->entered_ns = monotonic_ns();
    member->stalling_since_ns = member->stalling_heard_ns = 0;
    LIST_INSERT_HEAD(&pool->members, member, pool_link);
    introduce(pool, member);
    return 0;
}

void pool_leave(struct pool *pool, struct member *member) {
    struct transfer_request request = {
        .kind = TRANSFER_REMOVE_CONSUMER, .pool = pool->tenant.id, .consumer = member->consumer.bit};
    uint64_t bit = 1ull << member->consumer.bit;
    // Dispatches in the ring can overtake messages, so nobody else gets this bit before the transfer process has let go
    // of it.
    if (pool->known && device_send(pool->tenant.device, &request, NULL, 0))
        pool->leaving |= bit;
    pool->bits &= ~bit;
    member->pool = NULL;
    LIST_REMOVE(member, pool_link);
    close_fd(&member->words_fd);
    pool_growth_leave(pool, member);
    if (!pool->bits)
        pool->idle_since_ns = monotonic_ns();
    served_feed_mark(pool->feed);
}

bool pool_is_awaited(const struct pool *pool) {
    const struct member *member;
    TAILQ_FOREACH(member, &pool->feed->awaiting, awaited_link)
        if (strcmp(member->request.device, pool->tenant.device->uuid) == 0)
            return true;
    return false;
}

static struct member *find_member(const struct pool *pool, uint32_t bit) {
    struct member *member;
    LIST_FOREACH(member, &pool->members, pool_link)
        if (member->consumer.bit == bit)
            return member;
    return NULL;
}

// ---- Opening -----------------------------------------------------------------------------------------------

void pool_ask(struct pool *pool) {
    struct transfer_request request = {.kind = TRANSFER_OPEN_POOL,
                                       .pool = pool->tenant.id,
                                       .owner = pool->owner + 1,
                                       .tolerant = pool->feed->dataset->on_error != ON_ERROR_FAIL,
                                       .grown_slots = pool_growth_count(pool),
                                       .memory_bytes = pool->memory_bytes};
    const int fds[] = {pool->feed->ring_read_fd, pool->ring_fd, pool->feed->event_fd, pool->memory_fd};
    const struct member *member;
    if (pool->tenant.device->state != DEVICE_READY || pool->state != POOL_WAITING)
        return;
    set_state(pool, POOL_OPENING);
    pool->owner++;
    pool->known = true;
    device_send(pool->tenant.device, &request, fds, pool->memory_fd >= 0 ? 4 : 3);
    pool_growth_give(pool);
    LIST_FOREACH(member, &pool->members, pool_link)
        introduce(pool, member);
}

static void on_ready(struct tenant *tenant) {
    pool_ask(pool_of(tenant));
}

// Its transfer process has no record of it.
static void forgotten(struct pool *pool) {
    pool->known = false;
    pool->tenant.closing_since_ns = 0;
}

void pool_condemn(struct pool *pool, int code, const char *text) {
    pool_fail(pool, code, text);
    device_condemn(pool->tenant.device);
}

static void opened(struct pool *pool, uint64_t memory_bytes, int *fd) {
    if (pool->state != POOL_OPENING)
        return; // it has been closed in the meantime
    if (pool->memory_fd < 0 && *fd < 0) {
        pool_condemn(pool, -EPROTO, "a transfer process opened a pool without sending its descriptor");
        return;
    }
    if (pool->memory_fd < 0) {
        pool->memory_fd = *fd;
        pool->memory_bytes = memory_bytes;
        *fd = -1;
    }
    set_state(pool, POOL_OPEN);
    pool->crashes = 0;
    pool->feed->admit = true;
    log_info("feed %" PRIu64 " has a pool of %" PRIu32 " batches on GPU %s", pool->feed->id,
             pool->ring.header->slot_count, pool->tenant.device->uuid);
}

// Reported every second while copies wait for its stream. What counts is how long others have waited because of that.
static void lagging(struct pool *pool, uint32_t bit, uint64_t waited_ns) {
    struct served_feed *feed = pool->feed;
    struct member *laggard = find_member(pool, bit);
    uint64_t now = monotonic_ns();
    if (!laggard || laggard->failed || waited_ns > now - laggard->entered_ns)
        return; // the report is about an earlier consumer with this bit
    bool continues = now < laggard->stalling_heard_ns + LAG_REPORTS_NS;
    laggard->stalling_heard_ns = now;
    if (!tap_stalls(&pool->delivery, &laggard->consumer))
        laggard->stalling_since_ns = 0;
    else if (!continues || !laggard->stalling_since_ns)
        laggard->stalling_since_ns = now;
    if (!laggard->stalling_since_ns || now - laggard->stalling_since_ns < feed->max_lag_ns)
        return;
    stats_add(&feed->stats->counters[FEED_consumers_detached], 1);
    member_fail(laggard, -ETIME,
                "this consumer's stream on GPU %s released no batch for %" PRIu64
                " s while others of the shared feed waited for it (max_lag), so it was detached",
                pool->tenant.device->uuid, feed->max_lag_ns / NS_PER_S);
}

// Of batches that the pool's consumers may still have to be granted.
static void count_images(const struct pool *pool, const struct transfer_report *report) {
    struct stats_feed *stats = pool->feed->stats;
    stats_add(&stats->counters[FEED_engine_images], report->engine_images);
    stats_add(&stats->counters[FEED_library_images], report->library_images);
    stats_add(&stats->counters[FEED_refused_images], report->refused_images);
}

static void on_reported(struct tenant *tenant, const struct transfer_report *report, int fd) {
    struct pool *pool = pool_of(tenant);
    struct member *member = find_member(pool, report->consumer);
    served_feed_mark(pool->feed);
    switch (report->kind) {
    case TRANSFER_POOL_OPEN:
        opened(pool, report->memory_bytes, &fd);
        device_close(pool->tenant.device, &fd);
        return;
    case TRANSFER_POOL_REFUSED:
        forgotten(pool);
        pool_fail(pool, report->code, report->text);
        return;
    case TRANSFER_POOL_CLOSED:
        forgotten(pool);
        return;
    case TRANSFER_CONSUMER_REMOVED:
        if (report->consumer < RING_MAX_CONSUMERS)
            pool->leaving &= ~(1ull << report->consumer);
        return;
    case TRANSFER_CONSUMER_REFUSED:
        if (member)
            member_fail(member, report->code < 0 ? report->code : -EIO, "%s", report->text);
        return;
    case TRANSFER_LAGGING:
        lagging(pool, report->consumer, report->waited_ns);
        return;
    case TRANSFER_SLOT_GROWN:
    case TRANSFER_GROWTH_REFUSED:
        pool_growth_answered(pool, report, &fd);
        device_close(pool->tenant.device, &fd);
        return;
    case TRANSFER_IMAGES:
        count_images(pool, report);
        return;
    default: // the device's
        return;
    }
}

// ---- Ending ------------------------------------------------------------------------------------------------

// Its context is gone, and with it the copies that it had queued. The next process repeats them, with the same bytes to
// the same slots.
static void on_died(struct tenant *tenant) {
    struct pool *pool = pool_of(tenant);
    forgotten(pool);
    pool_growth_died(pool);
    pool->leaving = 0;
    pool->crashes += pool->state == POOL_OPENING;
    served_feed_mark(pool->feed);
    if (pool->state == POOL_CLOSING)
        return;
    if (pool->state != POOL_WAITING)
        set_state(pool, POOL_WAITING);
    int copies = ring_recover(&pool->ring, pool->owner);
    if (copies > 0)
        log_info("feed %" PRIu64 ": repeating %d copies to GPU %s", pool->feed->id, copies,
                 tenant->device->uuid);
}

static bool is_crashing(const struct tenant *tenant) {
    return CONTAINER_OF(tenant, const struct pool, tenant)->crashes >= CRASHES_MOST;
}

static void on_failed(struct tenant *tenant, int code, const char *text) {
    pool_fail(pool_of(tenant), code, text);
}

const struct tenant_events pool_tenant_events = {
    .ready = on_ready,
    .died = on_died,
    .failed = on_failed,
    .reported = on_reported,
    .is_crashing = is_crashing,
};

void pool_close(struct pool *pool) {
    struct transfer_request request = {.kind = TRANSFER_CLOSE_POOL, .pool = pool->tenant.id};
    if (pool->state == POOL_CLOSING)
        return;
    set_state(pool, POOL_CLOSING);
    pool->tenant.closing = true;
    if (pool->known && device_send(pool->tenant.device, &request, NULL, 0))
        pool->tenant.closing_since_ns = monotonic_ns();
    served_feed_mark(pool->feed);
}

void pool_fail(struct pool *pool, int code, const char *text) {
    struct member *member;
    if (pool->state == POOL_CLOSING)
        return;
    supervisor_report(pool->feed->supervisor, "feed %" PRIu64 " cannot have a pool on GPU %s: %s",
                      pool->feed->id, pool->tenant.device->uuid, text);
    served_feed_refuse(pool->feed, pool->tenant.device->uuid, code, text);
    LIST_FOREACH(member, &pool->members, pool_link)
        member_fail(member, code, "%s", text);
    pool_close(pool);
}

bool pool_is_over(const struct pool *pool) {
    return pool->state == POOL_CLOSING && !pool->known && LIST_EMPTY(&pool->members);
}

// ---- Moving ------------------------------------------------------------------------------------------------

bool pool_pump(struct pool *pool) {
    const struct delivery *source = &pool->feed->delivery;
    uint32_t free_before = source->free_count;
    pool_growth_act(pool);
    if (pool->state == POOL_CLOSING)
        return false;
    if (delivery_pump(&pool->delivery) < 0) { // a transfer process fails as a whole, never with one batch
        pool_condemn(pool, -EIO, "a transfer process has damaged the ring of the pool");
        return false;
    }
    if (ring_take_sleeper(&pool->ring))
        device_wake(pool->tenant.device);
    return source->free_count > free_before;
}
