#include "daemon/supervisor/feeds/idle.h"

bool idle_is(const struct served_feed *feed) {
    return feed->state != FEED_CLOSING && feed->idle_since_ns && !served_feed_in_use(feed);
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
