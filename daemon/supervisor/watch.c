#include "daemon/supervisor/watch.h"

#include "daemon/supervisor/clients/brought.h"
#include "daemon/supervisor/clients/session_turn.h"
#include "daemon/supervisor/clients/tracing.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/feed_turn.h"
#include "daemon/supervisor/feeds/kept.h"
#include "daemon/supervisor/feeds/prepared_loaders.h"
#include "daemon/supervisor/feeds/prepared_ring.h"
#include "daemon/supervisor/feeds/sample_caches.h"
#include "daemon/supervisor/indexing.h"
#include "daemon/supervisor/standstill.h"

void watch_tick(struct supervisor *supervisor, uint64_t now) {
    struct served_feed *feed;
    struct session *session;
    struct device *device;
    standstill_tick(supervisor, now);
    LIST_FOREACH(feed, &supervisor->feeds, link)
        feed_tick(feed, now);
    TAILQ_FOREACH(session, &supervisor->sessions, link)
        session_tick(session, now);
    LIST_FOREACH(device, &supervisor->devices, link)
        device_mark(device);
    prepared_ring_tick(supervisor, now);
    prepared_loaders_tick(supervisor, now);
    brought_tick(supervisor, now);
    indexing_tick(supervisor, now);
    kept_tick(supervisor, now);
    sample_caches_tick(supervisor);
    tracing_tick(supervisor);
    users_forget(supervisor, now);
}
