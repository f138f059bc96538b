#include "daemon/supervisor/clients/brought_room.h"

#include <inttypes.h>

#include "base/sizes.h"
#include "daemon/supervisor/clients/brought.h"
#include "daemon/supervisor/feeds/quota.h"
#include "daemon/supervisor/feeds/served_feed.h"

#define UNUSED_MOST 64u // of one user: each may take only a few KiB

struct usage {
    uint64_t own, all;               // bytes
    uint64_t own_in_use, all_in_use; // ... of those that are used
    uint32_t own_unused;             // views
};

static struct usage usage_of(const struct supervisor *supervisor, uid_t user) {
    struct usage usage = {0};
    const struct brought *brought;
    TAILQ_FOREACH(brought, &supervisor->brought, link) {
        bool own = brought->user == user, used = brought_is_used(brought);
        usage.all += brought->bytes;
        usage.own += own ? brought->bytes : 0;
        usage.all_in_use += used ? brought->bytes : 0;
        usage.own_in_use += own && used ? brought->bytes : 0;
        usage.own_unused += own && !used;
    }
    return usage;
}

// Begins to, if a feed is left. True: it is gone.
static bool make_way(struct brought *brought) {
    struct served_feed *feed;
    LIST_FOREACH(feed, &brought->supervisor->feeds, link)
        if (feed->dataset == brought->dataset)
            served_feed_close(feed);
    if (brought->dataset->references > 1)
        return false;
    brought_free(brought);
    return true;
}

// Those that were used last stay.
static int close_unused(struct supervisor *supervisor, uid_t user, uint64_t own_most, uint64_t all_most) {
    struct usage usage = usage_of(supervisor, user);
    struct brought *brought, *next;
    int err = 0;
    TAILQ_FOREACH_SAFE(brought, &supervisor->brought, link, next) {
        bool own = brought->user == user;
        bool own_fits = usage.own <= own_most && usage.own_unused < UNUSED_MOST;
        if (own_fits && usage.all <= all_most)
            break;
        if (brought_is_used(brought) || (!own && !own_fits))
            continue;
        usage.all -= brought->bytes;
        usage.own -= own ? brought->bytes : 0;
        usage.own_unused -= own;
        if (!make_way(brought))
            err = -EAGAIN;
    }
    return err;
}

int brought_make_room(struct supervisor *supervisor, uid_t user, uint64_t bytes, struct error *error) {
    const struct config *config = supervisor->config;
    uint64_t own = quota_view_memory(config, user), all = config->view_memory;
    struct usage usage = usage_of(supervisor, user);
    if (usage.own_in_use + bytes > own)
        return error_set(error, -ENOSPC,
                         "the view takes %" PRIu64 " KiB; the views that you have brought take %" PRIu64
                         " KiB of %" PRIu64 " KiB per user (user_view_memory), of %" PRIu64
                         " KiB of all (view_memory)",
                         (bytes + 1023) >> 10, usage.own_in_use >> 10, own >> 10, all >> 10);
    if (usage.all_in_use + bytes > all)
        return error_set(error, -ENOSPC,
                         "the view takes %" PRIu64 " KiB; all views that clients have brought take %" PRIu64
                         " KiB of %" PRIu64 " KiB (view_memory): ask the administrator to raise it",
                         (bytes + 1023) >> 10, usage.all_in_use >> 10, all >> 10);
    return close_unused(supervisor, user, own - bytes, all - bytes);
}
