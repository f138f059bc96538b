#include "daemon/supervisor/feeds/budget.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/supervisor/feeds/idle.h"

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

int budget_make_room(struct supervisor *supervisor, uid_t user, uint64_t bytes, struct error *error) {
    const struct config *config = supervisor->config;
    uint64_t user_memory = config->user_ring_memory ? config->user_ring_memory : config->ring_memory;
    struct usage own = usage_of(supervisor, user, true);
    struct usage all = usage_of(supervisor, IDLE_OF_ANYBODY, true);
    if (own.feeds >= config->user_feeds)
        return error_set(error, -EBUSY,
                         "you already have %" PRIu64 " feeds, the maximum per user (user_feeds)",
                         config->user_feeds);
    if (own.bytes + bytes > user_memory)
        return error_set(error, -ENOSPC,
                         "the feed needs a ring of %" PRIu64 " MiB; your feeds have %" PRIu64
                         " MiB of %" PRIu64
                         " MiB per user (user_ring_memory): ask for smaller batches or a smaller ring",
                         mib_up(bytes), own.bytes >> 20, user_memory >> 20);
    if (all.bytes + bytes > config->ring_memory)
        return error_set(
            error, -ENOSPC,
            "the feed needs a ring of %" PRIu64 " MiB; all feeds together have %" PRIu64 " MiB of %" PRIu64
            " MiB (ring_memory): ask for smaller batches or a smaller ring, or raise ring_memory",
            mib_up(bytes), all.bytes >> 20, config->ring_memory >> 20);
    close_idle(supervisor, user, config->user_feeds - 1, user_memory - bytes);
    close_idle(supervisor, IDLE_OF_ANYBODY, UINT64_MAX, config->ring_memory - bytes);
    return 0;
}
