#include "daemon/supervisor/feeds/idle.h"

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/quota.h"

#define RETURN_NS  (5 * NS_PER_S) // in which a client that returns has attached again
#define KEPT_SHARE 4u             // of the feeds that there may be

bool idle_is(const struct served_feed *feed) {
    return feed->state != FEED_CLOSING && feed->idle_since_ns && !served_feed_in_use(feed);
}

void idle_expect_return(struct served_feed *feed) {
    feed->warm_until_ns = monotonic_ns() + RETURN_NS;
}

bool idle_is_kept(const struct served_feed *feed, uint64_t now) {
    const struct supervisor *supervisor = feed->supervisor;
    const struct served_feed *other;
    uint64_t all = 0, own = 0;
    if (supervisor->state != SUPERVISOR_RUNNING || now >= feed->warm_until_ns)
        return false;
    LIST_FOREACH(other, &supervisor->feeds, link) {
        if (other == feed || !idle_is(other) || now >= other->warm_until_ns)
            continue;
        all++;
        own += other->user == feed->user;
    }
    return all < divide_up(quota_all_feeds(supervisor->config), KEPT_SHARE) &&
           own < divide_up(quota_feeds(supervisor->config, feed->user), KEPT_SHARE);
}

struct served_feed *idle_longest(const struct supervisor *supervisor, uid_t user) {
    struct served_feed *longest = NULL, *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link) {
        if (!idle_is(feed) || (user != IDLE_OF_ANYBODY && feed->user != user))
            continue;
        if (!longest || feed->idle_since_ns < longest->idle_since_ns)
            longest = feed;
    }
    return longest;
}
