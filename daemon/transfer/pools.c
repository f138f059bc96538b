#include "daemon/transfer/pools.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/error.h"
#include "base/queue.h"
#include "daemon/log.h"
#include "daemon/transfer/reporting.h"

void pools_count(const struct pool_set *set) {
    const struct device_ring *pool;
    uint64_t pinned = 0, memory = 0;
    LIST_FOREACH(pool, &set->list, link) {
        pinned += pool->registration.done_bytes + pool->registration.tail_bytes +
                  images_pinned_bytes(pool->copies.images);
        memory += gpu_slots_bytes(&pool->slots);
    }
    atomic_store_explicit(&set->stats->pinned_bytes, pinned, memory_order_relaxed);
    atomic_store_explicit(&set->stats->pool_bytes, memory, memory_order_relaxed);
}

// ---- Pools -------------------------------------------------------------------------------------------------

static struct device_ring *find_pool(const struct pool_set *set, uint32_t id) {
    struct device_ring *pool;
    LIST_FOREACH(pool, &set->list, link)
        if (pool->id == id)
            break;
    return pool;
}

void pools_drop(struct pool_set *set, struct device_ring *pool) {
    while (!images_are_settled(pool->copies.images))
        set->waits(set);
    LIST_REMOVE(pool, link);
    device_ring_end(pool);
    pools_count(set);
}

static void open_pool(struct pool_set *set, const struct transfer_request *request, int *fds,
                      uint32_t fd_count) {
    struct device_ring *pool = NULL;
    struct error error = {0};
    if (device_ring_begin(set->gpu, set->engine, request, fds, fd_count, &pool, &error) < 0) {
        reporting_send(TRANSFER_POOL_REFUSED, request->pool, &error, NULL, -1);
        return;
    }
    pool->copies.latencies = set->stats->latencies;
    pool->copies.trace = set->trace;
    pool->copies.pool = pool->id;
    pool->copies.marks = (struct copy_marks){.clock = set->clock, .trace = set->trace, .pool = pool->id};
    LIST_INSERT_HEAD(&set->list, pool, link);
}

static int measure_bus(struct pool_set *set, struct device_ring *pool, struct error *error) {
    uint64_t speed = 0;
    if (pool->memory_fd < 0 || atomic_load_explicit(&set->stats->bus_bytes_per_s, memory_order_relaxed))
        return 0;
    int err = device_ring_measure_bus(pool, &speed, error);
    atomic_store_explicit(&set->stats->bus_bytes_per_s, speed, memory_order_relaxed);
    return err;
}

bool pools_prepare_one(struct pool_set *set) {
    struct device_ring *pool;
    struct error error = {0};
    LIST_FOREACH(pool, &set->list, link)
        if (!pool->open && !pool->memory_due)
            break;
    if (!pool)
        return false;
    int left = device_ring_prepare(pool, &error);
    if (left > 0)
        return true;
    if (left == 0)
        left = measure_bus(set, pool, &error);
    if (left < 0) {
        reporting_send(TRANSFER_POOL_REFUSED, pool->id, &error, NULL, -1);
        pools_drop(set, pool);
        return true;
    }
    log_info("pool %" PRIu32 ": %" PRIu64 " MiB of ring pinned in %.1f ms, %" PRIu64 " MiB on the GPU",
             pool->id, pool->registration.bytes >> 20, (double)pool->registering_ns / 1e6,
             gpu_slots_bytes(&pool->slots) >> 20);
    stats_add(&set->stats->counters[GPU_registering_ns], pool->registering_ns);
    pools_count(set);
    struct transfer_report more = {.memory_bytes = pool->slots.first.bytes};
    reporting_send(TRANSFER_POOL_OPEN, pool->id, NULL, &more, pool->memory_fd);
    close_fd(&pool->memory_fd);
    return true;
}

static void give_memory(struct pool_set *set, struct device_ring *pool,
                        const struct transfer_request *request, int fd) {
    struct error error = {0};
    if (device_ring_give_memory(pool, request->slot, request->memory_bytes, fd, &error) == 0)
        return;
    reporting_send(TRANSFER_POOL_REFUSED, pool->id, &error, NULL, -1);
    pools_drop(set, pool);
}

static void grow_slot(struct pool_set *set, struct device_ring *pool,
                      const struct transfer_request *request) {
    struct transfer_report answer = {.slot = request->slot};
    struct error error = {0};
    AUTO_CLOSE int fd = -1;
    int err =
        device_ring_grow_slot(pool, request->slot, request->memory_bytes, &answer.memory_bytes, &fd, &error);
    if (err)
        reporting_send(TRANSFER_GROWTH_REFUSED, pool->id, &error, &answer, -1);
    else
        reporting_send(TRANSFER_SLOT_GROWN, pool->id, NULL, &answer, fd);
    pools_count(set);
}

// ---- From the supervisor -----------------------------------------------------------------------------------

void pools_handle(struct pool_set *set, const struct transfer_request *request, int *fds, uint32_t fd_count) {
    struct device_ring *pool = find_pool(set, request->pool);
    struct transfer_report answer = {.consumer = request->consumer};
    struct error error = {0};
    switch (request->kind) {
    case TRANSFER_OPEN_POOL:
        open_pool(set, request, fds, fd_count);
        return;
    case TRANSFER_CLOSE_POOL:
        if (pool)
            pools_drop(set, pool);
        reporting_send(TRANSFER_POOL_CLOSED, request->pool, NULL, NULL, -1);
        break;
    case TRANSFER_ADD_CONSUMER:
        if (!pool || fd_count != 1)
            break;
        if (device_ring_add_consumer(pool, request->consumer, fds[0], &error) < 0)
            reporting_send(TRANSFER_CONSUMER_REFUSED, pool->id, &error, &answer, -1);
        return;
    case TRANSFER_REMOVE_CONSUMER:
        if (pool)
            device_ring_remove_consumer(pool, request->consumer);
        reporting_send(TRANSFER_CONSUMER_REMOVED, request->pool, NULL, &answer, -1);
        break;
    case TRANSFER_GIVE_MEMORY:
        if (!pool || fd_count != 1)
            break;
        give_memory(set, pool, request, fds[0]);
        return;
    case TRANSFER_GROW_SLOT:
        if (pool)
            grow_slot(set, pool, request);
        break;
    default:
        log_warning("unknown request %" PRIu32 " from the supervisor", request->kind);
    }
    while (fd_count)
        close(fds[--fd_count]);
}
