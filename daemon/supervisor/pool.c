#include "daemon/supervisor/pool.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS_LEAST 4u
#define SLOTS_MOST  256u // by itself

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

// ---- Making ------------------------------------------------------------------------------------------------

// Enough slots to copy into while others are read, for every lane; more cost GPU memory and bring nothing.
static int plan_ring(const struct served_feed *feed, uint32_t prefetch, struct ring_plan *plan,
                     struct error *error) {
    const struct ring_header *header = feed->ring.header;
    *plan = (struct ring_plan){
        .batch_size = header->batch_size,
        .field_count = header->field_count,
        .samples = header->samples,
        .seed = header->seed,
        .fingerprint = header->fingerprint,
        .world_size = header->world_size,
        .order_version = header->order_version,
        .on_device = true,
    };
    memcpy(plan->fields, header->fields, sizeof plan->fields);
    uint64_t per_lane = max_u64(SLOTS_LEAST, prefetch ? prefetch + 2ull : 0);
    uint64_t slots = feed->supervisor->config->device_pool / header->slot_bytes;
    slots = max_u64(min_u64(slots, SLOTS_MOST), per_lane * feed->asked_lanes);
    plan->slot_count = (uint32_t)min_u64(slots, RING_MAX_SLOTS);
    return ring_plan(plan, error);
}

static int check_memory(const struct device *device, const struct ring_plan *plan, struct error *error) {
    uint64_t bound = device->supervisor->config->device_memory;
    uint64_t promised = device_promised_bytes(device);
    uint64_t bytes = plan->slot_count * plan->slot_bytes;
    if (promised + bytes <= bound)
        return 0;
    return error_set(error, -ENOSPC,
                     "the feed needs a pool of %" PRIu64 " MiB on GPU %s; all pools there have %" PRIu64
                     " MiB of %" PRIu64 " MiB (device_memory): ask for smaller batches or a smaller prefetch,"
                     " or raise device_memory",
                     (bytes + (1u << 20) - 1) >> 20, device->uuid, promised >> 20, bound >> 20);
}

static int open_ring(struct pool *pool, const struct ring_plan *plan, struct error *error) {
    struct served_feed *feed = pool->feed;
    int failed = ring_create(plan, &pool->ring_fd, &pool->ring_read_fd, error);
    if (!failed)
        failed = ring_map(&pool->ring, pool->ring_fd, RING_CONTROL, error);
    if (failed)
        return failed;
    failed = delivery_open(&pool->delivery, &pool->ring, &feed->delivery.partition, feed->asked_lanes);
    if (failed)
        return error_set(error, failed, "out of memory");
    pool->delivery.source = &feed->delivery;
    pool->delivery.shared = feed->delivery.shared;
    ring_supervisor_arm(&pool->ring);
    return 0;
}

static void count_pools(const struct device *device) {
    const struct pool *pool;
    uint32_t count = 0;
    LIST_FOREACH(pool, &device->pools, device_link)
    count++;
    atomic_store_explicit(&device->supervisor->stats->gpus[device->record].pools, count,
                          memory_order_relaxed);
}

static void discard(struct pool *pool) {
    if (pool->ring.header)
        delivery_close(&pool->delivery);
    ring_unmap(&pool->ring);
    close_fd(&pool->ring_fd);
    close_fd(&pool->ring_read_fd);
    close_fd(&pool->memory_fd);
    free(pool);
}

static int make_pool(struct served_feed *feed, struct device *device, uint32_t prefetch, struct pool **made,
                     struct error *error) {
    struct ring_plan plan;
    int failed = plan_ring(feed, prefetch, &plan, error);
    if (!failed)
        failed = check_memory(device, &plan, error);
    if (failed)
        return failed;
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return error_set(error, -ENOMEM, "out of memory");
    pool->feed = feed;
    pool->device = device;
    pool->ring_fd = pool->ring_read_fd = pool->memory_fd = -1;
    pool->planned_bytes = plan.slot_count * plan.slot_bytes;
    pool->idle_since_ns = monotonic_ns();
    failed = open_ring(pool, &plan, error);
    if (failed) {
        discard(pool);
        return failed;
    }
    pool->id = ++feed->supervisor->next_pool;
    LIST_INSERT_HEAD(&feed->pools, pool, feed_link);
    LIST_INSERT_HEAD(&device->pools, pool, device_link);
    device->idle_since_ns = 0;
    count_pools(device);
    pool_ask(pool);
    *made = pool;
    return 0;
}

int pool_get(struct served_feed *feed, const char *uuid, uint32_t prefetch, struct pool **pool,
             struct error *error) {
    struct pool *known;
    struct device *device;
    LIST_FOREACH(known, &feed->pools, feed_link)
    if (known->state != POOL_CLOSING && strcmp(known->device->uuid, uuid) == 0) {
        *pool = known;
        return 0;
    }
    int failed = device_get(feed->supervisor, uuid, &device, error);
    return failed ? failed : make_pool(feed, device, prefetch, pool, error);
}

// ---- Consumers ---------------------------------------------------------------------------------------------

// Sealed: a consumer that cut it short would make our reading of it fault.
static int make_words(const struct pool *pool, int *fd, struct error *error) {
    AUTO_CLOSE int words = memfd_create("feedd-release-words", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (words < 0)
        return error_set(error, -errno, "cannot make a consumer's release words: %m");
    uint64_t bytes = align_up(8ull * pool->ring.header->slot_count, RING_PAGE);
    int failed = posix_fallocate(words, 0, (off_t)bytes);
    if (!failed && fcntl(words, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        failed = errno;
    if (failed)
        return error_set(error, -failed, "cannot make a consumer's release words: %s", strerror(failed));
    *fd = words;
    words = -1;
    return 0;
}

static void introduce(const struct pool *pool, const struct session *session) {
    struct transfer_request request = {
        .kind = TRANSFER_ADD_CONSUMER, .pool = pool->id, .consumer = session->consumer.word};
    device_send(pool->device, &request, &session->words_fd, 1);
}

int pool_enter(struct pool *pool, struct session *session, struct error *error) {
    if (pool->words == UINT64_MAX)
        return error_set(error, -EBUSY, "the feed has %u consumers on GPU %s already, the most it can",
                         POOL_CONSUMERS_MOST, pool->device->uuid);
    int failed = make_words(pool, &session->words_fd, error);
    if (failed)
        return failed;
    session->consumer.word = (uint32_t)__builtin_ctzll(~pool->words);
    pool->words |= 1ull << session->consumer.word;
    pool->idle_since_ns = 0;
    session->pool = pool;
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
    count_pools(device);
    discard(pool);
    // The copies that were under way have kept slots of the ring.
    if (feed->state != FEED_CLOSING)
        feed_pump(feed);
    feed_free_if_over(feed);
}

void pool_leave(struct pool *pool, struct session *session) {
    struct transfer_request request = {
        .kind = TRANSFER_REMOVE_CONSUMER, .pool = pool->id, .consumer = session->consumer.word};
    device_send(pool->device, &request, NULL, 0);
    pool->words &= ~(1ull << session->consumer.word);
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
                                       .owner = ++pool->owner,
                                       .memory_bytes = pool->memory_bytes};
    const int fds[] = {pool->feed->ring_read_fd, pool->ring_fd, pool->feed->event_fd, pool->memory_fd};
    const struct session *session;
    if (pool->device->state != GPU_RUNNING || pool->state != POOL_WAITING)
        return;
    set_state(pool, POOL_OPENING);
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
    log_info("feed %" PRIu64 " has a pool of %" PRIu32 " batches on GPU %s", pool->feed->id,
             pool->ring.header->slot_count, pool->device->uuid);
    feed_admit(pool->feed);
    if (pool->feed->state != FEED_CLOSING)
        feed_pump(pool->feed);
}

void pool_lagging(struct pool *pool, uint32_t consumer, uint64_t waited_ns) {
    struct served_feed *feed = pool->feed;
    struct session *session, *laggard = NULL;
    uint32_t others = 0;
    LIST_FOREACH(session, &feed->sessions, feed_link) {
        if (session->pool == pool && session->consumer.word == consumer)
            laggard = session;
        else
            others++;
    }
    // Alone it holds nobody up.
    if (!laggard || !others || waited_ns < feed->max_lag_ns)
        return;
    stats_add(&feed->stats->counters[FEED_consumers_detached], 1);
    session_fail(laggard, -ETIME,
                 "this consumer's stream on GPU %s released no batch for %" PRIu64
                 " s while others of the shared feed waited for it (max_lag), and was detached",
                 pool->device->uuid, waited_ns / 1000000000u);
}

// ---- Ending ------------------------------------------------------------------------------------------------

void pool_transfer_died(struct pool *pool) {
    pool->known = false;
    if (pool->state == POOL_CLOSING) {
        free_if_over(pool);
        return;
    }
    if (pool->state != POOL_WAITING)
        set_state(pool, POOL_WAITING);
    // It is reaped: its context is gone, and with it the copies it had queued. Who comes next does them again, with the
    // same bytes into the same slots.
    int copies = ring_recover(&pool->ring, pool->owner);
    if (copies > 0)
        log_info("feed %" PRIu64 ": %d copies to GPU %s are made again", pool->feed->id, copies,
                 pool->device->uuid);
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
    if (pool->failed || pool->state == POOL_CLOSING)
        return;
    pool->failed = pool->telling = true;
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
    uint32_t free_before = delivery->source->free_count;
    if (pool->state == POOL_CLOSING || delivery_pump(delivery) < 0)
        return false; // a transfer process fails as a whole, never with one batch
    if (ring_take_sleeper(&pool->ring))
        device_wake(pool->device);
    return delivery->source->free_count > free_before;
}

void pool_watch(struct pool *pool, uint64_t now) {
    const struct supervisor *supervisor = pool->feed->supervisor;
    uint64_t linger = supervisor->config->linger_s * UINT64_C(1000000000);
    const struct session *session;
    TAILQ_FOREACH(session, &pool->feed->awaiting, awaited_link)
    if (strcmp(session->request.device, pool->device->uuid) == 0)
        return;
    if (pool->idle_since_ns && now >= pool->idle_since_ns + linger)
        pool_close(pool);
}
