#include "daemon/supervisor/feeds/budget.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/supervisor/feeds/idle.h"
#include "daemon/supervisor/feeds/prepared_ring.h"
#include "daemon/supervisor/feeds/quota.h"

struct usage {
    uint64_t feeds, bytes;
};

// What the feeds of `user`, or IDLE_OF_ANYBODY, have: all of them, or only those in use.
static struct usage usage_of(const struct supervisor *supervisor, uid_t user, bool in_use_only) {
    struct usage usage = {0};
    const struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link) {
        if (feed->state == FEED_CLOSING || (user != IDLE_OF_ANYBODY && feed->user != user) ||
            (in_use_only && idle_is(feed)))
            continue;
        usage.feeds++;
        usage.bytes += feed->ring_bytes;
    }
    return usage;
}

// Feeds that are being closed have their records until their loaders have ended, which may take long. Half of the room
// that is left for others may be taken by those.
static bool has_many_closing(const struct supervisor *supervisor, uid_t user) {
    uint64_t all = quota_all_feeds(supervisor->config), mine = quota_feeds(supervisor->config, user);
    uint64_t count = 0;
    const struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        count += feed->user == user;
    return mine < all && count > mine && count >= mine + (all - mine) / 2;
}

// Closes idle feeds, the one idle for longest first, until what remains leaves room.
static void close_idle(struct supervisor *supervisor, uid_t user, uint64_t feeds_most, uint64_t bytes_most) {
    struct served_feed *idle;
    for (;;) {
        struct usage usage = usage_of(supervisor, user, false);
        bool fits = usage.feeds <= feeds_most && usage.bytes <= bytes_most;
        if (fits || !(idle = idle_longest(supervisor, user)))
            return;
        served_feed_close(idle);
    }
}

uint64_t budget_left(const struct supervisor *supervisor, uid_t user) {
    const struct config *config = supervisor->config;
    uint64_t all = usage_of(supervisor, IDLE_OF_ANYBODY, true).bytes;
    uint64_t own = usage_of(supervisor, user, true).bytes;
    uint64_t memory = quota_ring_memory(config, user);
    return min_u64(config->ring_memory > all ? config->ring_memory - all : 0,
                   memory > own ? memory - own : 0);
}

static int check_user(const struct supervisor *supervisor, uid_t user, uint64_t bytes, struct error *error) {
    const struct config *config = supervisor->config;
    uint64_t feeds = quota_feeds(config, user), memory = quota_ring_memory(config, user);
    struct usage own = usage_of(supervisor, user, true);
    if (own.feeds >= feeds)
        return error_set(error, -EBUSY,
                         "you already have %" PRIu64 " feeds, the maximum per user (user_feeds), of %" PRIu64
                         " that the daemon can serve",
                         feeds, quota_all_feeds(config));
    if (has_many_closing(supervisor, user))
        return error_set(error, -EBUSY,
                         "too many of your feeds are still being closed; try again in a while");
    if (own.bytes + bytes > memory)
        return error_set(error, -ENOSPC,
                         "the feed needs a ring of %" PRIu64 " MiB; your feeds have %" PRIu64
                         " MiB of %" PRIu64 " MiB per user (user_ring_memory), of %" PRIu64
                         " MiB of all (ring_memory): ask for smaller batches or a smaller ring",
                         mib_up(bytes), own.bytes >> 20, memory >> 20, config->ring_memory >> 20);
    return 0;
}

int budget_make_room(struct supervisor *supervisor, uid_t user, uint64_t bytes, struct error *error) {
    const struct config *config = supervisor->config;
    int err = check_user(supervisor, user, bytes, error);
    if (err)
        return err;
    struct usage all = usage_of(supervisor, IDLE_OF_ANYBODY, true);
    if (all.bytes + bytes > config->ring_memory)
        return error_set(
            error, -ENOSPC,
            "the feed needs a ring of %" PRIu64 " MiB; all feeds together have %" PRIu64 " MiB of %" PRIu64
            " MiB (ring_memory): ask for smaller batches or a smaller ring, or raise ring_memory",
            mib_up(bytes), all.bytes >> 20, config->ring_memory >> 20);
    close_idle(supervisor, user, quota_feeds(config, user) - 1, quota_ring_memory(config, user) - bytes);
    close_idle(supervisor, IDLE_OF_ANYBODY, UINT64_MAX, config->ring_memory - bytes);
    return 0;
}

int budget_grow(const struct served_feed *feed, uint64_t bytes, struct error *error) {
    struct supervisor *supervisor = feed->supervisor;
    const struct config *config = supervisor->config;
    uint64_t most = config->ring_memory, user_most = quota_ring_memory(config, feed->user);
    uint64_t all = usage_of(supervisor, IDLE_OF_ANYBODY, true).bytes;
    uint64_t own = usage_of(supervisor, feed->user, true).bytes;
    if (all + bytes > most)
        return error_set(error, -ENOSPC, "all rings have %" PRIu64 " MiB of %" PRIu64 " MiB (ring_memory)",
                         all >> 20, most >> 20);
    if (own + bytes > user_most)
        return error_set(error, -ENOSPC,
                         "the user's rings have %" PRIu64 " MiB of %" PRIu64
                         " MiB per user (user_ring_memory), of %" PRIu64 " MiB of all (ring_memory)",
                         own >> 20, user_most >> 20, most >> 20);
    if (all + bytes + prepared_ring_bytes(supervisor) > most)
        prepared_ring_give_up(supervisor);
    close_idle(supervisor, feed->user, UINT64_MAX, user_most - bytes);
    close_idle(supervisor, IDLE_OF_ANYBODY, UINT64_MAX, most - bytes);
    return 0;
}
