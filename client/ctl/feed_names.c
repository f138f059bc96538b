#include "client/ctl/feed_names.h"

#include <string.h>

#include "base/error.h"
#include "base/time.h"
#include "client/ctl/query.h"

#define ANSWER_MS    500u
#define HEARTBEAT_NS (1 * NS_PER_S) // an older one may be that of a daemon that hangs
#define RETRY_NS     (5 * NS_PER_S)

static const struct feed_name *find(const struct feed_names *names, uint64_t id) {
    for (uint32_t i = 0; i < names->count; i++)
        if (names->known[i].id == id)
            return &names->known[i];
    return NULL;
}

// A dataset always has a name.
static bool lacks_names(const struct stats_feed_snapshot *feed) {
    return !*feed->dataset;
}

static bool must_ask(const struct feed_names *names, const struct stats_snapshot *snapshot) {
    if (snapshot->stopped || snapshot->taken_ns > snapshot->heartbeat_ns + HEARTBEAT_NS ||
        (names->failed_ns && snapshot->taken_ns < names->failed_ns + RETRY_NS))
        return false;
    for (uint32_t i = 0; i < snapshot->feed_count; i++)
        if (lacks_names(&snapshot->feeds[i]) && !find(names, snapshot->feeds[i].id))
            return true;
    return false;
}

static int take(const Feedd__Answer *page, void *context, struct error *error) {
    struct feed_names *names = context;
    (void)error;
    for (size_t i = 0; i < page->n_feeds; i++) {
        struct feed_name *known = (struct feed_name *)find(names, page->feeds[i]->id);
        if (!known)
            continue; // newer than the snapshot
        snprintf(known->name, sizeof known->name, "%s", page->feeds[i]->name);
        snprintf(known->dataset, sizeof known->dataset, "%s", page->feeds[i]->dataset);
    }
    return 0;
}

// What is not answered about a feed of the snapshot stays empty, and is not asked again.
static void ask(struct feed_names *names, const struct ctl *ctl, const struct stats_snapshot *snapshot) {
    struct error error = {0};
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    memset(names, 0, sizeof *names);
    names->pid = snapshot->pid;
    names->started_ns = snapshot->started_ns;
    for (uint32_t i = 0; i < snapshot->feed_count; i++)
        names->known[names->count++].id = snapshot->feeds[i].id;
    int err = query_open_within(&connection, ctl, ANSWER_MS, &error);
    if (!err)
        err = query_ask_within(&connection, FEEDD__QUERY__KIND__FEEDS, NULL, ANSWER_MS, take, names, &error);
    if (!err)
        return;
    names->count = 0;
    names->failed_ns = snapshot->taken_ns;
}

void feed_names_fill(struct feed_names *names, const struct ctl *ctl, struct stats_snapshot *snapshot) {
    if (names->pid != snapshot->pid || names->started_ns != snapshot->started_ns)
        memset(names, 0, sizeof *names);
    if (must_ask(names, snapshot))
        ask(names, ctl, snapshot);
    for (uint32_t i = 0; i < snapshot->feed_count; i++) {
        struct stats_feed_snapshot *feed = &snapshot->feeds[i];
        const struct feed_name *known = lacks_names(feed) ? find(names, feed->id) : NULL;
        if (!known)
            continue;
        memcpy(feed->name, known->name, sizeof feed->name);
        memcpy(feed->dataset, known->dataset, sizeof feed->dataset);
    }
}
