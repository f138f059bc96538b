#include "daemon/transfer/pools.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/error.h"
#include "base/queue.h"
#include "daemon/log.h"
#include "daemon/transfer/reporting.h"

static void count(const struct device_ring *pool, uint64_t *pinned, uint64_t *memory) {
    *pinned += pool->registration.done_bytes + pool->registration.tail_bytes +
               images_pinned_bytes(pool->copies.images);
    *memory += gpu_slots_bytes(&pool->slots);
}

void pools_count(const struct pool_set *set) {
    const struct device_ring *pool;
    uint64_t pinned = 0, memory = 0;
    LIST_FOREACH(pool, &set->list, link)
        count(pool, &pinned, &memory);
    LIST_FOREACH(pool, &set->ending, link)
        count(pool, &pinned, &memory);
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

void pools_end(struct pool_set *set, struct device_ring *pool, uint32_t last_word,
               const struct error *error) {
    LIST_REMOVE(pool, link);
    LIST_INSERT_HEAD(&set->ending, pool, link);
    pool->last_word = last_word;
    pool->last_error = error ? *error : (struct error){0};
    pools_end_settled(set);
}

bool pools_end_settled(struct pool_set *set) {
    struct device_ring *pool, *next;
    LIST_FOREACH_SAFE(pool, &set->ending, link, next) {
        if (!images_are_settled(pool->copies.images))
            continue;
        const uint32_t id = pool->id, last_word = pool->last_word;
        const struct error error = pool->last_error;
        LIST_REMOVE(pool, link);
        device_ring_end(pool);
        pools_count(set);
        reporting_send(last_word, id, error.code ? &error : NULL, NULL, -1);
    }
    return !LIST_EMPTY(&set->ending);
}

void pools_close_all(struct pool_set *set) {
    struct device_ring *pool;
    engine_queue_close(set->engine); // its jobs are done then
    set->engine = NULL;
    while ((pool = LIST_FIRST(&set->list)) || (pool = LIST_FIRST(&set->ending))) {
        LIST_REMOVE(pool, link);
        device_ring_end(pool);
    }
    pools_count(set);
}

// A pool that was refused may be closed before the engine has done its jobs.
static void close_pool(struct pool_set *set, struct device_ring *pool, uint32_t id) {
    struct device_ring *ending;
    LIST_FOREACH(ending, &set->ending, link)
        if (ending->id == id)
            break;
    if (pool)
        pools_end(set, pool, TRANSFER_POOL_CLOSED, NULL);
    else if (!ending)
        reporting_send(TRANSFER_POOL_CLOSED, id, NULL, NULL, -1);
    else {
        ending->last_word = TRANSFER_POOL_CLOSED;
        ending->last_error = (struct error){0};
    }
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
        pools_end(set, pool, TRANSFER_POOL_REFUSED, &error);
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
    pools_end(set, pool, TRANSFER_POOL_REFUSED, &error);
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
        close_pool(set, pool, request->pool);
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
