#include "daemon/supervisor/feeds/cache_room.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/sizes.h"
#include "daemon/supervisor/feeds/quota.h"
#include "shm/memory_limit.h"

static uint64_t memory_bytes(void) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    const struct memory_limit limit = memory_limit_read();
    const uint64_t machine = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    return limit.free_bytes == UINT64_MAX ? machine : min_u64(machine, limit.limit_bytes);
}

uint64_t cache_room_limit(const struct config *config) {
    return config->cache_memory ? config->cache_memory : memory_bytes() / 2;
}

static bool fits(uint64_t bytes, uint64_t used, uint64_t most) {
    return bytes <= most && used <= most - bytes;
}

bool cache_room_fits(const struct config *config, uid_t user, uint64_t bytes, struct cache_usage usage) {
    const uint64_t most = cache_room_limit(config);
    return fits(bytes, usage.own, quota_cache_memory(config, most, user)) && fits(bytes, usage.all, most);
}

static int refuse(uint64_t bytes, const char *whose, uint64_t used, uint64_t most, const char *limit,
                  struct error *error) {
    return error_set(error, -ENOSPC,
                     "it may take %" PRIu64 " MiB of memory; %s in use have %" PRIu64 " MiB of %" PRIu64
                     " MiB (%s): set a smaller cache or cache_path, or raise %s",
                     mib_up(bytes), whose, used >> 20, most >> 20, limit, limit);
}

int cache_room_check(const struct config *config, uid_t user, uint64_t bytes, struct cache_usage usage,
                     struct error *error) {
    const uint64_t most = cache_room_limit(config), own_most = quota_cache_memory(config, most, user);
    if (!fits(bytes, usage.all, most))
        return refuse(bytes, "all caches", usage.all, most, "cache_memory", error);
    if (!fits(bytes, usage.own, own_most))
        return refuse(bytes, "the user's caches", usage.own, own_most, "user_cache_memory", error);
    return 0;
}
