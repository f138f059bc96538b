#include "daemon/supervisor/feeds/budget.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/supervisor/feeds/served_feed.h"

static uint64_t user_ring_bytes(const struct supervisor *supervisor, uid_t user) {
    uint64_t bytes = 0;
    const struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        if (feed->user == user && feed->state != FEED_CLOSING)
            bytes += feed->ring_bytes;
    return bytes;
}

static uint32_t user_feeds(const struct supervisor *supervisor, uid_t user) {
    uint32_t count = 0;
    const struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        count += feed->user == user && feed->state != FEED_CLOSING;
    return count;
}

// The feed that has been without consumers for longest; only feeds of `user` unless that is -1.
static struct served_feed *longest_idle(const struct supervisor *supervisor, uid_t user) {
    struct served_feed *oldest = NULL, *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link) {
        if (feed->state == FEED_CLOSING || !feed->idle_since_ns || served_feed_in_use(feed) ||
            (user != (uid_t)-1 && feed->user != user))
            continue;
        if (!oldest || feed->idle_since_ns < oldest->idle_since_ns)
            oldest = feed;
    }
    return oldest;
}

// Warm feeds that nobody uses make room for a new one, but not for one that can never fit.
static void close_idle(struct supervisor *supervisor, uid_t user, uint64_t bytes, uint64_t user_memory) {
    const struct config *config = supervisor->config;
    struct served_feed *idle;
    if (bytes > user_memory || bytes > config->ring_memory)
        return;
    while (user_ring_bytes(supervisor, user) + bytes > user_memory && (idle = longest_idle(supervisor, user)))
        served_feed_close(idle);
    while (user_feeds(supervisor, user) >= config->user_feeds && (idle = longest_idle(supervisor, user)))
        served_feed_close(idle);
    while (supervisor->ring_bytes + bytes > config->ring_memory &&
           (idle = longest_idle(supervisor, (uid_t)-1)))
        served_feed_close(idle);
}

int budget_make_room(struct supervisor *supervisor, uid_t user, uint64_t bytes, struct error *error) {
    const struct config *config = supervisor->config;
    uint64_t user_memory = config->user_ring_memory ? config->user_ring_memory : config->ring_memory;
    close_idle(supervisor, user, bytes, user_memory);
    if (user_feeds(supervisor, user) >= config->user_feeds)
        return error_set(error, -EBUSY,
                         "you already have %" PRIu64 " feeds, the maximum per user (user_feeds)",
                         config->user_feeds);
    if (user_ring_bytes(supervisor, user) + bytes > user_memory)
        return error_set(error, -ENOSPC,
                         "the feed needs a ring of %" PRIu64 " MiB; your feeds have %" PRIu64
                         " MiB of %" PRIu64
                         " MiB per user (user_ring_memory): ask for smaller batches or a smaller ring",
                         mib_up(bytes), user_ring_bytes(supervisor, user) >> 20, user_memory >> 20);
    if (supervisor->ring_bytes + bytes > config->ring_memory)
        return error_set(
            error, -ENOSPC,
            "the feed needs a ring of %" PRIu64 " MiB; all feeds together have %" PRIu64 " MiB of %" PRIu64
            " MiB (ring_memory): ask for smaller batches or a smaller ring, or raise ring_memory",
            mib_up(bytes), supervisor->ring_bytes >> 20, config->ring_memory >> 20);
    return 0;
}
