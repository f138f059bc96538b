// Making a pool: the size of its ring, GPU memory, the bookkeeping.
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/pool.h"
#include "shm/ring_supervisor.h"

#define SLOTS_LEAST 4u
#define SLOTS_MOST  256u // by itself

// Enough slots to copy into while others are read, for every lane; more cost GPU memory and bring nothing.
static int plan_ring(const struct served_feed *feed, const struct attach_request *request,
                     struct ring_plan *plan, struct error *error) {
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
    uint64_t per_lane = max_u64(SLOTS_LEAST, request->prefetch ? request->prefetch + 2ull : 0);
    uint64_t slots = feed->supervisor->config->device_pool / header->slot_bytes;
    slots = max_u64(min_u64(slots, SLOTS_MOST), per_lane * request->device_world_size);
    plan->slot_count = (uint32_t)min_u64(slots, RING_MAX_SLOTS);
    return ring_plan(plan, error);
}

bool pool_is_awaited(const struct pool *pool) {
    const struct session *session;
    TAILQ_FOREACH(session, &pool->feed->awaiting, awaited_link)
        if (strcmp(session->request.device, pool->device->uuid) == 0)
            return true;
    return false;
}

// Closes the pool on that device that has been idle for longest; its memory is free before what is asked for next.
// False: there is none.
static bool close_idle(const struct device *device) {
    struct pool *pool, *oldest = NULL;
    LIST_FOREACH(pool, &device->pools, device_link)
        if (pool->state != POOL_CLOSING && pool->idle_since_ns && !pool_is_awaited(pool) &&
            (!oldest || pool->idle_since_ns < oldest->idle_since_ns))
            oldest = pool;
    if (oldest)
        pool_close(oldest);
    return oldest != NULL;
}

static int find_memory(const struct device *device, const struct ring_plan *plan, struct error *error) {
    uint64_t bound = device->supervisor->config->device_memory;
    uint64_t bytes = plan->slot_count * plan->slot_bytes;
    while (bytes <= bound && device_promised_bytes(device) + bytes > bound && close_idle(device))
        ;
    uint64_t promised = device_promised_bytes(device);
    if (promised + bytes <= bound)
        return 0;
    return error_set(error, -ENOSPC,
                     "the feed needs a pool of %" PRIu64 " MiB on GPU %s; all pools there have %" PRIu64
                     " MiB of %" PRIu64 " MiB (device_memory): ask for smaller batches or a smaller prefetch,"
                     " or raise device_memory",
                     mib_up(bytes), device->uuid, promised >> 20, bound >> 20);
}

static int open_ring(struct pool *pool, const struct ring_plan *plan, struct error *error) {
    struct served_feed *feed = pool->feed;
    int err = ring_create(plan, &pool->ring_fd, &pool->ring_read_fd, error);
    if (!err)
        err = ring_map(&pool->ring, pool->ring_fd, RING_CONTROL, error);
    if (err)
        return err;
    err = delivery_open(&pool->delivery, &pool->ring, &feed->delivery.partition, pool->lane_limit,
                        tap_open(&pool->tap, &feed->delivery));
    if (err)
        return error_set(error, err, "out of memory");
    pool->delivery.shared = feed->delivery.shared;
    ring_supervisor_arm(&pool->ring);
    return 0;
}

void pool_count(const struct device *device) {
    const struct pool *pool;
    uint32_t count = 0;
    LIST_FOREACH(pool, &device->pools, device_link)
        count++;
    atomic_store_explicit(&device->supervisor->stats->gpus[device->record].pools, count,
                          memory_order_relaxed);
}

void pool_discard(struct pool *pool) {
    if (pool->ring.header)
        delivery_close(&pool->delivery);
    ring_unmap(&pool->ring);
    close_fd(&pool->ring_fd);
    close_fd(&pool->ring_read_fd);
    close_fd(&pool->memory_fd);
    free(pool);
}

static int make_pool(struct served_feed *feed, struct device *device, const struct attach_request *request,
                     struct pool **made, struct error *error) {
    struct ring_plan plan;
    int err = plan_ring(feed, request, &plan, error);
    if (!err)
        err = find_memory(device, &plan, error);
    if (err)
        return err;
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return error_set(error, -ENOMEM, "out of memory");
    pool->feed = feed;
    pool->device = device;
    pool->ring_fd = pool->ring_read_fd = pool->memory_fd = -1;
    pool->lane_limit = request->device_world_size;
    pool->planned_bytes = plan.slot_count * plan.slot_bytes;
    pool->idle_since_ns = monotonic_ns();
    err = open_ring(pool, &plan, error);
    if (err) {
        pool_discard(pool);
        return err;
    }
    pool->id = ++feed->supervisor->next_pool;
    LIST_INSERT_HEAD(&feed->pools, pool, feed_link);
    LIST_INSERT_HEAD(&device->pools, pool, device_link);
    device->idle_since_ns = 0;
    pool_count(device);
    pool_ask(pool);
    *made = pool;
    return 0;
}

// One that nobody uses any more does not stand in the way of more ranks.
static struct pool *find_pool(const struct served_feed *feed, const struct attach_request *request) {
    struct pool *pool;
    LIST_FOREACH(pool, &feed->pools, feed_link)
        if (pool->state != POOL_CLOSING && strcmp(pool->device->uuid, request->device) == 0)
            break;
    if (!pool || pool->lane_limit >= request->device_world_size || pool->words || pool_is_awaited(pool))
        return pool;
    pool_close(pool);
    return NULL;
}

int pool_get(struct served_feed *feed, const struct attach_request *request, struct pool **pool,
             struct error *error) {
    struct device *device;
    *pool = find_pool(feed, request);
    if (*pool)
        return 0;
    int err = device_get(feed->supervisor, request->device, &device, error);
    return err ? err : make_pool(feed, device, request, pool, error);
}
