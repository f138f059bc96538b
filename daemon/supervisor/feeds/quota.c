#include "daemon/supervisor/feeds/quota.h"

#include "base/sizes.h"
#include "daemon/supervisor/feeds/loader_count.h"
#include "daemon/trusted.h"
#include "shm/layout.h"

// `limit` is what the configuration says, `all` what there is.
static uint64_t share(uint64_t limit, uint64_t all, uid_t user) {
    if (limit)
        return limit;
    return user_is_trusted(user) ? all : all - all / 4;
}

uint64_t quota_all_feeds(const struct config *config) {
    const uint64_t loaders = config->loaders ? config->loaders : LOADER_COUNT_FIRST;
    return min_u64(STATS_MAX_FEEDS, STATS_MAX_LOADERS / loaders);
}

uint64_t quota_feeds(const struct config *config, uid_t user) {
    return share(config->user_feeds, quota_all_feeds(config), user);
}

uint64_t quota_ring_memory(const struct config *config, uid_t user) {
    return share(config->user_ring_memory, config->ring_memory, user);
}

uint64_t quota_view_memory(const struct config *config, uid_t user) {
    return share(config->user_view_memory, config->view_memory, user);
}

uint64_t quota_cache_memory(const struct config *config, uint64_t all, uid_t user) {
    return share(config->user_cache_memory, all, user);
}

uint64_t quota_device_memory(const struct config *config, uid_t user) {
    return share(config->user_device_memory, config->device_memory, user);
}
