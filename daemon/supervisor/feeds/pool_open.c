#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/supervisor/feeds/pool_growth.h"
#include "daemon/supervisor/feeds/pool_memory.h"
#include "daemon/supervisor/feeds/pool_open.h"
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
    // Slots as large as the feed's, at first and at most.
    if (header->ragged_count) {
        plan->ragged_most =
            header->slot_bytes - header->values_offset - header->ragged_count * RING_VALUES_ALIGN;
        plan->ragged_usual = plan->ragged_most - (header->slot_bytes - header->slot_allocated_bytes);
    }
    // What a rank may hold, one batch that is being copied and one that is next.
    uint64_t per_lane = max_u64(SLOTS_LEAST, request->prefetch ? request->prefetch + 2ull : 0);
    int err = ring_plan(plan, error);
    if (err)
        return err;
    uint64_t slots = feed->supervisor->config->device_pool / plan->slot_allocated_bytes;
    slots = min_u64(slots, CONTROL_MOST /
                               (divide_up(header->batch_size, 64) * sizeof(uint64_t))); // a bit per sample
    slots = max_u64(min_u64(slots, SLOTS_MOST), per_lane * request->device_world_size);
    slots = max_u64(slots, request->pool_slots); // as before the daemon was lost: see ring_size_plan
    plan->slot_count = (uint32_t)min_u64(slots, RING_MAX_SLOTS);
    return ring_plan(plan, error);
}

static int plan_pool(const struct served_feed *feed, const struct device *device,
                     const struct attach_request *request, struct ring_plan *plan, struct error *error) {
    int err = plan_ring(feed, request, plan, error);
    const uint64_t bytes = plan->slot_count * plan->slot_allocated_bytes;
    return err ? err : pool_memory_find(device, feed->user, bytes, "the feed needs a pool of", error);
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
    return pool_growth_open(pool, error);
}

static void discard(struct pool *pool) {
    if (pool->ring.header)
        delivery_close(&pool->delivery);
    pool_growth_close(pool);
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
                                   .promised_bytes = plan.slot_count * plan.slot_allocated_bytes};
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
