#include "daemon/supervisor/clients/loaders_command.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "daemon/supervisor/feeds/feed_loaders_count.h"

static int find_feed(const struct supervisor *supervisor, const char *name, struct served_feed **found,
                     struct error *error) {
    struct served_feed *feed;
    char id[24];
    *found = NULL;
    LIST_FOREACH(feed, &supervisor->feeds, link) {
        snprintf(id, sizeof id, "%" PRIu64, feed->id);
        if (feed->state == FEED_CLOSING || (strcmp(name, id) != 0 && strcmp(name, feed->name) != 0))
            continue;
        if (*found)
            return error_set(error, -EINVAL, "feeds %" PRIu64 " and %" PRIu64 " go by %s: name one by its id",
                             (*found)->id, feed->id, name);
        *found = feed;
    }
    return *found ? 0 : error_set(error, -ENOENT, "there is no feed %s: feedctl feeds shows all", name);
}

void loaders_command(struct session *session, const char *name, uint32_t count) {
    struct served_feed *feed;
    struct error error = {0};
    char text[128];
    int err = *name ? 0 : error_set(&error, -EINVAL, "the command names no feed");
    if (!err && count > LOADER_COUNT_MOST)
        err = error_set(&error, -EINVAL, "found %" PRIu32 " loaders, wanted 1 to %u, or auto", count,
                        LOADER_COUNT_MOST);
    if (!err)
        err = find_feed(session->supervisor, name, &feed, &error);
    if (!err)
        err = feed_loaders_set(feed, count, &error);
    if (err) {
        session_refuse(session, err, error.text);
        return;
    }
    if (count)
        snprintf(text, sizeof text, "feed %" PRIu64 " has %" PRIu32 " loader%s from now on", feed->id, count,
                 count == 1 ? "" : "s");
    else
        snprintf(text, sizeof text, "feed %" PRIu64 " has as many loaders as it needs from now on", feed->id);
    session_done(session, text);
}
