#include "daemon/supervisor/feeds/room.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/feeds/feed_loaders_count.h"
#include "daemon/supervisor/feeds/idle.h"
#include "daemon/supervisor/feeds/kept.h"
#include "daemon/supervisor/feeds/prepared_ring.h"
#include "daemon/supervisor/feeds/quota.h"
#include "shm/ring_room.h"

#define HANGING_S  5u                  // after stop_timeout, when a loader that still runs cannot be killed
#define BYTES_MOST (UINT64_C(1) << 60) // so that sums do not overflow where /dev/shm has no limit

struct room {
    uint64_t feeds, loaders, bytes;
};

static struct room sum(struct room left, struct room right) {
    return (struct room){.feeds = left.feeds + right.feeds,
                         .loaders = left.loaders + right.loaders,
                         .bytes = left.bytes + right.bytes};
}

static uint64_t without(uint64_t from, uint64_t taken) {
    return from > taken ? from - taken : 0;
}

static bool fits(struct room wanted, struct room room) {
    return wanted.feeds <= room.feeds && wanted.loaders <= room.loaders && wanted.bytes <= room.bytes;
}

static struct room wanted_by(const struct served_feed *feed) {
    return (struct room){.feeds = 1, .loaders = feed->loaders_wanted, .bytes = feed->ring_bytes};
}

static bool has_begun(const struct served_feed *feed) {
    return feed->stats != NULL;
}

// What it has and what it is still to get, such as loaders in place of those that have died.
static struct room held_by(const struct served_feed *feed) {
    if (!has_begun(feed))
        return (struct room){0};
    return (struct room){.feeds = 1, .loaders = feed_loaders_taken(feed), .bytes = feed->ring_bytes};
}

// What a thread is still to allocate of its ring.
static uint64_t missing_bytes(const struct served_feed *feed) {
    struct stat status;
    if (!feed->making || !has_begun(feed) || fstat(feed->ring_fd, &status) < 0)
        return 0;
    return without(feed->ring_bytes, 512 * (uint64_t)status.st_blocks);
}

// A loader in a read that never ends cannot be killed. What its feed has is not counted on.
static bool is_ending(const struct served_feed *feed, uint64_t now) {
    uint64_t patience = (feed->supervisor->config->stop_timeout_s + HANGING_S) * NS_PER_S;
    return feed->state == FEED_CLOSING && has_begun(feed) && now < feed->closing_since_ns + patience;
}

// ---- What there is -----------------------------------------------------------------------------------------

struct survey {
    struct room unused;
    uint64_t free_bytes; // of memory; unused.bytes is also bounded by ring_memory
    struct room ending;  // comes back shortly
    struct room idle;    // comes back if it is asked for
};

static struct survey look_around(const struct supervisor *supervisor) {
    uint64_t now = monotonic_ns(), missing = 0;
    struct survey survey = {0};
    struct room held = {0};
    const struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link) {
        struct room one = held_by(feed);
        held = sum(held, one);
        missing += missing_bytes(feed);
        if (is_ending(feed, now))
            survey.ending = sum(survey.ending, one);
        else if (idle_is(feed))
            survey.idle = sum(survey.idle, one);
    }
    // What is freed is freed a little at a time, and then in both sums: better to wait once too often.
    uint64_t kept = kept_bytes(supervisor, CLOSER_ANYBODY);
    survey.ending.bytes += kept;
    survey.unused.feeds = without(STATS_MAX_FEEDS, held.feeds);
    survey.unused.loaders = without(STATS_MAX_LOADERS, held.loaders);
    // What is prepared for the next ring becomes the feed's, or makes way.
    const uint64_t prepared = prepared_ring_bytes(supervisor);
    survey.free_bytes = without(min_u64(ring_free_bytes(), BYTES_MOST) + prepared, missing);
    survey.unused.bytes =
        min_u64(survey.free_bytes, without(supervisor->config->ring_memory, held.bytes + kept));
    return survey;
}

uint64_t room_ring_bytes(const struct supervisor *supervisor) {
    struct survey survey = look_around(supervisor);
    return survey.unused.bytes + survey.ending.bytes + survey.idle.bytes;
}

uint64_t room_held_bytes(const struct supervisor *supervisor) {
    uint64_t bytes = kept_bytes(supervisor, CLOSER_ANYBODY) + prepared_ring_bytes(supervisor);
    const struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        bytes += held_by(feed).bytes;
    return bytes;
}

// ---- Finding room ------------------------------------------------------------------------------------------

// What this feed wants, together with those that have been queued for longer.
static struct room wanted_up_to(const struct served_feed *feed, bool *first) {
    struct room wanted = wanted_by(feed);
    const struct served_feed *other;
    *first = true;
    LIST_FOREACH(other, &feed->supervisor->feeds, link) {
        if (other->state != FEED_QUEUED || other->id >= feed->id)
            continue;
        wanted = sum(wanted, wanted_by(other));
        *first = false;
    }
    return wanted;
}

static int refuse_memory(const struct served_feed *feed, struct error *error) {
    return error_set(error, -ENOSPC,
                     "the feed needs a ring of %" PRIu64
                     " MiB, and feeds that were closed still have memory; try again shortly",
                     mib_up(feed->ring_bytes));
}

static int refuse(const struct served_feed *feed, struct room wanted, struct survey survey, struct room most,
                  struct error *error) {
    if (wanted.feeds > most.feeds)
        return error_set(error, -EBUSY, "this daemon already serves %u feeds, the maximum", STATS_MAX_FEEDS);
    if (wanted.loaders > most.loaders)
        return error_set(error, -EBUSY, "this daemon already has %u loader processes, the maximum",
                         STATS_MAX_LOADERS);
    if (wanted.bytes <= survey.free_bytes + survey.ending.bytes + survey.idle.bytes)
        return refuse_memory(feed, error); // budget_make_room has looked at the others
    return ring_no_room(feed->ring_bytes, -ENOSPC, error);
}

// What the feeds of this one's user really have, those that were closed included. 0: it fits into user_ring_memory. 1:
// it will.
static int look_at_user(const struct served_feed *feed, struct error *error) {
    const struct supervisor *supervisor = feed->supervisor;
    uint64_t kept = kept_bytes(supervisor, feed->user), now = monotonic_ns(), held = kept, ending = kept;
    const struct served_feed *other;
    LIST_FOREACH(other, &supervisor->feeds, link) {
        if (other->user != feed->user || !has_begun(other))
            continue;
        held += other->ring_bytes;
        ending += is_ending(other, now) ? other->ring_bytes : 0;
    }
    if (held + feed->ring_bytes <= quota_ring_memory(supervisor->config, feed->user))
        return 0;
    return ending ? 1 : refuse_memory(feed, error);
}

int room_find(struct served_feed *feed, struct error *error) {
    struct survey survey = look_around(feed->supervisor);
    struct room coming = sum(survey.unused, survey.ending);
    struct room most = sum(coming, survey.idle);
    struct served_feed *idle;
    bool first;
    struct room wanted = wanted_up_to(feed, &first);
    int found = look_at_user(feed, error);
    if (found)
        return found;
    if (most.loaders) // with fewer loaders than it wants, a feed is slower, but it works
        wanted.loaders = min_u64(wanted.loaders, most.loaders);
    if (fits(wanted, survey.unused))
        return 0;
    if (!fits(wanted, most))
        return first ? refuse(feed, wanted, survey, most, error)
                     : 1; // those before it do not wait indefinitely
    while (!fits(wanted, coming) && (idle = idle_longest(feed->supervisor, IDLE_OF_ANYBODY))) {
        coming = sum(coming, held_by(idle));
        served_feed_close(idle);
    }
    return 1;
}

static bool any_is_ending(const struct supervisor *supervisor) {
    uint64_t now = monotonic_ns();
    const struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        if (is_ending(feed, now))
            return true;
    return false;
}

bool room_is_being_made(const struct supervisor *supervisor) {
    return any_is_ending(supervisor) || kept_bytes(supervisor, CLOSER_ANYBODY) > 0;
}

bool room_make_way(struct supervisor *supervisor) {
    if (any_is_ending(supervisor) || prepared_ring_give_up(supervisor))
        return true;
    struct served_feed *idle = idle_longest(supervisor, IDLE_OF_ANYBODY);
    if (idle)
        served_feed_close(idle);
    return idle || kept_bytes(supervisor, CLOSER_ANYBODY);
}
