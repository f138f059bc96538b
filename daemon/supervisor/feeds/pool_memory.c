#include "daemon/supervisor/feeds/pool_memory.h"

#include <inttypes.h>

#include "base/sizes.h"
#include "daemon/supervisor/feeds/quota.h"

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

int pool_memory_find(const struct device *device, uid_t user, uint64_t bytes, const char *what,
                     struct error *error) {
    uint64_t bound = device->supervisor->config->device_memory;
    uint64_t user_bound = min_u64(quota_device_memory(device->supervisor->config, user), bound);
    while (bytes <= user_bound && user_promised_bytes(device, user) + bytes > user_bound &&
           close_idle(device, user))
        ;
    while (bytes <= user_bound && device_promised_bytes(device) + bytes > bound &&
           close_idle(device, (uid_t)-1))
        ;
    uint64_t mine = user_promised_bytes(device, user), promised = device_promised_bytes(device);
    if (promised + bytes > bound)
        return error_set(error, -ENOSPC,
                         "%s %" PRIu64 " MiB on GPU %s; all pools there have %" PRIu64 " MiB of %" PRIu64
                         " MiB (device_memory): ask for smaller batches or a smaller prefetch,"
                         " or raise device_memory",
                         what, mib_up(bytes), device->uuid, promised >> 20, bound >> 20);
    if (mine + bytes > user_bound)
        return error_set(error, -ENOSPC,
                         "%s %" PRIu64 " MiB on GPU %s; your pools there have %" PRIu64 " MiB of %" PRIu64
                         " MiB per user (user_device_memory), of %" PRIu64
                         " MiB of all (device_memory): ask for smaller batches or a smaller prefetch",
                         what, mib_up(bytes), device->uuid, mine >> 20, user_bound >> 20, bound >> 20);
    return 0;
}

bool pool_memory_make_way(const struct device *device) {
    const struct tenant *tenant;
    LIST_FOREACH(tenant, &device->tenants, link)
        if (tenant->closing)
            return true;
    return close_idle(device, (uid_t)-1);
}
