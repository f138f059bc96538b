#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/supervisor/feeds/pool_open.h"
#include "daemon/supervisor/feeds/quota.h"
#include "shm/ring_make.h"
#include "shm/ring_supervisor.h"

#define SLOTS_LEAST 4u
#define SLOTS_MOST  256u // unless ranks need more
// Of the control part, which is allocated on the loop. It is an eighth of the pool if samples have one byte.
#define CONTROL_MOST (8u << 20)

int pool_check_lanes(const struct attach_request *request, struct error *error) {
    if (!*request->device || (uint64_t)SLOTS_LEAST * request->device_world_size <= RING_MAX_SLOTS)
        return 0;
    return error_set(error, -EINVAL,
                     "device_world_size %" PRIu32
                     " is too large: a pool has at most %u batches, and each rank "
                     "needs %u",
                     request->device_world_size, RING_MAX_SLOTS, SLOTS_LEAST);
}

// Enough slots to copy into while others are read, for every lane; more would cost GPU memory for no benefit.
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
        .slot_count = 1,
    };
    memcpy(plan->fields, header->fields, sizeof plan->fields);
    if (feed->shape.gpu_images)
        gpu_images_in_pool(feed->dataset, plan->fields);
    if (header->ragged_count) // slots as large as the feed's
        plan->ragged_most =
            header->slot_bytes - header->values_offset - header->ragged_count * RING_VALUES_ALIGN;
    plan->ragged_usual = plan->ragged_most;
    // What a rank may hold, one batch that is being copied and one that is next.
    uint64_t per_lane = max_u64(SLOTS_LEAST, request->prefetch ? request->prefetch + 2ull : 0);
    int err = ring_plan(plan, error);
    if (err)
        return err;
    uint64_t slots = feed->supervisor->config->device_pool / plan->slot_bytes;
    slots = min_u64(slots, CONTROL_MOST /
                               (divide_up(header->batch_size, 64) * sizeof(uint64_t))); // a bit per sample
    slots = max_u64(min_u64(slots, SLOTS_MOST), per_lane * request->device_world_size);
    slots = max_u64(slots, request->pool_slots); // as before the daemon was lost: see ring_size_plan
    plan->slot_count = (uint32_t)min_u64(slots, RING_MAX_SLOTS);
    return ring_plan(plan, error);
}

// Closes the pool on that device that has been idle for longest, only of `user` unless that is -1; its memory is freed
// before the next request is handled. False: there is none.
static bool close_idle(const struct device *device, uid_t user) {
    struct pool *oldest = NULL;
    struct tenant *tenant;
    LIST_FOREACH(tenant, &device->tenants, link) {
        struct pool *pool = CONTAINER_OF(tenant, struct pool, tenant);
        if (pool->state != POOL_CLOSING && pool->idle_since_ns && !pool_is_awaited(pool) &&
            (user == (uid_t)-1 || pool->feed->user == user) &&
            (!oldest || pool->idle_since_ns < oldest->idle_since_ns))
            oldest = pool;
    }
    if (oldest)
        pool_close(oldest);
    return oldest != NULL;
}

static uint64_t user_promised_bytes(const struct device *device, uid_t user) {
    const struct tenant *tenant;
    uint64_t bytes = 0;
    LIST_FOREACH(tenant, &device->tenants, link)
        if (!tenant->closing && CONTAINER_OF(tenant, const struct pool, tenant)->feed->user == user)
            bytes += tenant->promised_bytes;
    return bytes;
}

static int find_memory(const struct device *device, uid_t user, const struct ring_plan *plan,
                       struct error *error) {
    uint64_t bound = device->supervisor->config->device_memory;
    uint64_t user_bound = min_u64(quota_device_memory(device->supervisor->config, user), bound);
    uint64_t bytes = plan->slot_count * plan->slot_bytes;
    while (bytes <= user_bound && user_promised_bytes(device, user) + bytes > user_bound &&
           close_idle(device, user))
        ;
    while (bytes <= user_bound && device_promised_bytes(device) + bytes > bound &&
           close_idle(device, (uid_t)-1))
        ;
    uint64_t mine = user_promised_bytes(device, user), promised = device_promised_bytes(device);
    if (promised + bytes > bound)
        return error_set(error, -ENOSPC,
                         "the feed needs a pool of %" PRIu64 " MiB on GPU %s; all pools there have %" PRIu64
                         " MiB of %" PRIu64
                         " MiB (device_memory): ask for smaller batches or a smaller prefetch,"
                         " or raise device_memory",
                         mib_up(bytes), device->uuid, promised >> 20, bound >> 20);
    if (mine + bytes > user_bound)
        return error_set(error, -ENOSPC,
                         "the feed needs a pool of %" PRIu64 " MiB on GPU %s; your pools there have %" PRIu64
                         " MiB of %" PRIu64 " MiB per user (user_device_memory), of %" PRIu64
                         " MiB of all (device_memory): ask for smaller batches or a smaller prefetch",
                         mib_up(bytes), device->uuid, mine >> 20, user_bound >> 20, bound >> 20);
    return 0;
}

static int plan_pool(const struct served_feed *feed, const struct device *device,
                     const struct attach_request *request, struct ring_plan *plan, struct error *error) {
    int err = plan_ring(feed, request, plan, error);
    return err ? err : find_memory(device, feed->user, plan, error);
}

static int open_ring(struct pool *pool, const struct ring_plan *plan, struct error *error) {
    struct served_feed *feed = pool->feed;
    int err = ring_find_room(plan, error);
    if (!err)
        err = ring_create(plan, &pool->ring_fd, &pool->ring_read_fd, error);
    if (!err)
        err = ring_allocate_control(plan, pool->ring_fd, error); // that is all of it: no batches
    if (!err)
        err = ring_map(&pool->ring, pool->ring_fd, RING_CONTROL, error);
    if (!err)
        err = ring_supervise(&pool->ring, error);
    if (err)
        return err;
    err = delivery_open(&pool->delivery, &pool->ring, &feed->delivery.partition, pool->lane_limit,
                        tap_open(&pool->tap, &feed->delivery), plan->slot_count);
    if (err)
        return error_set(error, err, "out of memory");
    pool->delivery.shared = feed->delivery.shared;
    ring_supervisor_arm(&pool->ring);
    return 0;
}

static void discard(struct pool *pool) {
    if (pool->ring.header)
        delivery_close(&pool->delivery);
    ring_unmap(&pool->ring);
    close_fd(&pool->ring_fd);
    close_fd(&pool->ring_read_fd);
    if (pool->tenant.device)
        device_close(pool->tenant.device, &pool->memory_fd);
    free(pool);
}

static int make_pool(struct served_feed *feed, struct device *device, const struct attach_request *request,
                     struct pool **made, struct error *error) {
    struct ring_plan plan;
    int err = plan_pool(feed, device, request, &plan, error);
    if (err && request->pool_slots) { // a configuration with smaller limits: as a new pool then
        struct attach_request modest = *request;
        modest.pool_slots = 0;
        err = plan_pool(feed, device, &modest, &plan, error);
    }
    if (err)
        return err;
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return error_set(error, -ENOMEM, "out of memory");
    pool->feed = feed;
    pool->ring_fd = pool->ring_read_fd = pool->memory_fd = -1;
    pool->lane_limit = request->device_world_size;
    pool->idle_since_ns = monotonic_ns();
    err = open_ring(pool, &plan, error);
    if (err) {
        discard(pool);
        return err;
    }
    pool->tenant = (struct tenant){.events = &pool_tenant_events,
                                   .id = ++feed->supervisor->next_pool,
                                   .promised_bytes = plan.slot_count * plan.slot_bytes};
    LIST_INSERT_HEAD(&feed->pools, pool, link);
    device_add_tenant(device, &pool->tenant);
    pool_ask(pool);
    *made = pool;
    return 0;
}

void pool_free(struct pool *pool) {
    LIST_REMOVE(pool, link);
    device_remove_tenant(&pool->tenant);
    discard(pool);
}

// A pool that nobody uses any more makes way for one with more ranks. One that is still being opened does so once it
// is open, when the members that wait for it are admitted again.
static struct pool *find_pool(const struct served_feed *feed, const struct attach_request *request) {
    struct pool *pool;
    LIST_FOREACH(pool, &feed->pools, link)
        if (pool->state != POOL_CLOSING && strcmp(pool->tenant.device->uuid, request->device) == 0)
            break;
    if (!pool || pool->lane_limit >= request->device_world_size || pool->bits || pool->state != POOL_OPEN)
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
