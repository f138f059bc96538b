#include "daemon/supervisor/standstill.h"

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/delivery/abandoned.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/pool.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "daemon/supervisor/processes/transfer_process.h"

// Between two ticks. That much always counts, so that something hung is found even if every tick is late.
#define USUAL_NS      (250 * NS_PER_MS)
#define STANDSTILL_NS (1 * NS_PER_S)

struct standstill {
    uint64_t from_ns, to_ns;
};

// When something began that is not to take too long; 0: it has not.
static void excuse(uint64_t *since_ns, const struct standstill *standstill) {
    if (*since_ns && *since_ns < standstill->to_ns)
        *since_ns = min_u64(*since_ns + standstill->to_ns - standstill->from_ns, standstill->to_ns);
}

// Until when others may still come, which is at most that far away.
static void extend(uint64_t *until_ns, const struct standstill *standstill, uint64_t most_ns) {
    if (*until_ns > standstill->from_ns && *until_ns < standstill->to_ns + most_ns)
        *until_ns = min_u64(*until_ns + standstill->to_ns - standstill->from_ns, standstill->to_ns + most_ns);
}

static void excuse_process(struct process *process, const _Atomic uint64_t *heartbeat_ns,
                           const struct standstill *standstill) {
    process_excuse(process, heartbeat_ns, standstill->from_ns, standstill->to_ns);
    excuse(&process->signalled_ns, standstill);
}

static void excuse_member(struct member *member, const struct standstill *standstill) {
    excuse(&member->consumer.lagging_since_ns, standstill);
    excuse(&member->silent_since_ns, standstill);
    excuse(&member->stalling_since_ns, standstill);
    excuse(&member->stalling_heard_ns, standstill);
}

static void excuse_feed(struct served_feed *feed, const struct standstill *standstill) {
    struct loader_process *loader;
    struct member *member;
    LIST_FOREACH(loader, &feed->loaders, link) {
        excuse_process(&loader->process, &loader->record->heartbeat_ns, standstill);
        excuse(&loader->retired_ns, standstill);
    }
    LIST_FOREACH(member, &feed->members, feed_link)
        excuse_member(member, standstill);
    abandoned_stood_still(&feed->delivery, standstill->from_ns, standstill->to_ns);
    excuse(&feed->starved_since_ns, standstill);
    excuse(&feed->closing_since_ns, standstill);
    extend(&feed->gather_until_ns, standstill, feed->max_lag_ns);
    extend(&feed->newcomers_from_ns, standstill, feed->max_lag_ns);
    extend(&feed->returns_until_ns, standstill, feed->max_lag_ns);
}

static void excuse_device(struct device *device, const struct standstill *standstill) {
    struct tenant *tenant;
    LIST_FOREACH(tenant, &device->tenants, link)
        excuse(&tenant->closing_since_ns, standstill);
    excuse(&device->closed_ns, standstill);
    excuse(&device->in_driver_ns, standstill);
    excuse(&device->lost_ns, standstill);
    if (device->transfer)
        excuse_process(&device->transfer->process, &device->transfer->record->heartbeat_ns, standstill);
}

static void excuse_all(struct supervisor *supervisor, const struct standstill *standstill) {
    struct loader_process *loader;
    struct served_feed *feed;
    struct session *session;
    struct device *device;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        excuse_feed(feed, standstill);
    LIST_FOREACH(device, &supervisor->devices, link)
        excuse_device(device, standstill);
    LIST_FOREACH(loader, &supervisor->prepared.list, link)
        excuse(&loader->process.signalled_ns, standstill);
    TAILQ_FOREACH(session, &supervisor->sessions, link) {
        excuse(&session->opened_ns, standstill);
        excuse(&session->closing_since_ns, standstill);
    }
    excuse(&supervisor->stop_deadline_ns, standstill);
}

void standstill_tick(struct supervisor *supervisor, uint64_t now) {
    const struct standstill standstill = {supervisor->ticked_ns + USUAL_NS, now};
    supervisor->stood_still = supervisor->ticked_ns && now > supervisor->ticked_ns + STANDSTILL_NS;
    supervisor->ticked_ns = now;
    if (supervisor->stood_still)
        excuse_all(supervisor, &standstill);
}
