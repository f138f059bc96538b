#include "daemon/supervisor/watch.h"

#include "daemon/supervisor/clients/session_turn.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/feed_turn.h"
#include "daemon/supervisor/feeds/kept.h"

void watch_tick(struct supervisor *supervisor, uint64_t now) {
    struct served_feed *feed;
    struct session *session;
    struct device *device;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        feed_tick(feed, now);
    LIST_FOREACH(session, &supervisor->sessions, link)
        session_tick(session, now);
    LIST_FOREACH(device, &supervisor->devices, link)
        device_mark(device);
    kept_tick(supervisor, now);
    users_forget(supervisor, now);
}
