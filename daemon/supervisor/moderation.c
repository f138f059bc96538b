#include "daemon/supervisor/moderation.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "shm/ring_supervisor.h"

#define PACE_WINDOW_NS UINT64_C(2000000)
#define NAP_MOST_NS    UINT64_C(500000)
#define NAP_LEAST_NS   UINT64_C(50000) // a shorter one is not worth its timer
#define NAP_SLACK_NS   5000ul          // the kernel's own is 50 us
#define HANDING_OVER   2u              // processes: the supervisor and a consumer
#define PROCESSORS     8u              // with more, handing over is too small a part to be worth a nap

void pace_note(struct pace *pace, uint64_t completed, uint64_t now_ns) {
    uint64_t elapsed = now_ns - pace->since_ns;
    if (elapsed < PACE_WINDOW_NS)
        return;
    uint64_t batches = completed - pace->batches;
    pace->interval_ns = pace->since_ns && batches ? elapsed / batches : 0;
    pace->since_ns = now_ns;
    pace->batches = completed;
}

// The fewest batches that one of the consumers may hold, or 0 where one has not been granted all that is complete.
static uint32_t fewest_credits(const struct delivery *delivery) {
    const struct lane *lane;
    const struct consumer *consumer;
    uint32_t fewest = UINT32_MAX;
    LIST_FOREACH(lane, &delivery->lanes, link) {
        LIST_FOREACH(consumer, &lane->consumers, link) {
            if (consumer->cursor < lane->base + lane->ready)
                return 0;
            fewest = (uint32_t)min_u64(fewest, consumer->prefetch);
        }
    }
    return fewest;
}

uint64_t pace_nap_ns(const struct pace *pace, const struct delivery *delivery) {
    if (!delivery->consumer_count)
        return NAP_ANY;
    uint64_t batches = min_u64(fewest_credits(delivery) / 2, ring_unclaimed(delivery->ring));
    if (!batches)
        return 0;
    if (!pace->interval_ns || pace->interval_ns > NAP_MOST_NS / 2)
        return NAP_ANY;
    return min_u64(batches * pace->interval_ns, NAP_MOST_NS);
}

uint64_t moderation_nap_ns(const struct supervisor *supervisor) {
    const struct served_feed *feed;
    uint64_t nap = NAP_ANY;
    uint32_t busy = HANDING_OVER;
    uint32_t processors = supervisor->moderation.processors;
    if (supervisor->state != SUPERVISOR_RUNNING || processors > PROCESSORS)
        return 0;
    LIST_FOREACH(feed, &supervisor->feeds, link) {
        if (feed->state == FEED_MAKING || feed->state == FEED_GATHERING)
            return 0;
        busy += feed->loaders_running;
        if (feed->state == FEED_RUNNING)
            nap = min_u64(nap, pace_nap_ns(&feed->pace, &feed->delivery));
    }
    return busy <= processors || nap == NAP_ANY || nap < NAP_LEAST_NS ? 0 : nap;
}

static void nap(uv_prepare_t *before_poll) {
    const struct supervisor *supervisor = before_poll->data;
    uint64_t longest = moderation_nap_ns(supervisor);
    if (!longest)
        return;
    // From when it last woke, so that naps follow one another evenly. A signal ends it, and that is as well.
    uint64_t until = supervisor->moderation.woke_ns + longest;
    struct timespec time = timespec_of_ns(until);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static void note_waking(uv_check_t *after_poll) {
    struct supervisor *supervisor = after_poll->data;
    supervisor->moderation.woke_ns = monotonic_ns();
}

void moderation_start(struct supervisor *supervisor) {
    struct moderation *moderation = &supervisor->moderation;
    cpu_set_t allowed;
    // Fails where there are more than a cpu_set_t holds.
    moderation->processors =
        sched_getaffinity(0, sizeof allowed, &allowed) < 0 ? UINT32_MAX : (uint32_t)CPU_COUNT(&allowed);
    prctl(PR_SET_TIMERSLACK, NAP_SLACK_NS);
    uv_prepare_init(&supervisor->loop, &moderation->before_poll);
    uv_check_init(&supervisor->loop, &moderation->after_poll);
    moderation->before_poll.data = moderation->after_poll.data = supervisor;
    uv_prepare_start(&moderation->before_poll, nap);
    uv_check_start(&moderation->after_poll, note_waking);
}
