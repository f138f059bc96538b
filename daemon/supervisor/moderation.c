#include "daemon/supervisor/moderation.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/served_feed.h"

#define NAP_LEAST_NS UINT64_C(50000) // a shorter one is not worth its timer
#define NAP_SLACK_NS 5000ul          // the kernel's own is 50 us
#define HANDING_OVER 2u              // processes that hand over batches: the supervisor and a consumer
#define PROCESSORS   8u              // with more, handing over takes too small a share to be worth a nap

uint64_t moderation_nap_ns(const struct supervisor *supervisor) {
    const struct served_feed *feed;
    uint64_t nap = NAP_ANY;
    uint32_t busy = HANDING_OVER;
    uint32_t processors = supervisor->moderation.processors;
    if (supervisor->state != SUPERVISOR_RUNNING || processors > PROCESSORS)
        return 0;
    LIST_FOREACH(feed, &supervisor->feeds, link) {
        if (feed->state < FEED_RUNNING)
            return 0;
        busy += feed->loaders_running;
        if (feed->state == FEED_RUNNING)
            nap = min_u64(nap, pace_nap_ns(&feed->pace, &feed->delivery));
    }
    return busy <= processors || nap == NAP_ANY || nap < NAP_LEAST_NS ? 0 : nap;
}

void moderation_nap(const struct supervisor *supervisor) {
    uint64_t longest = moderation_nap_ns(supervisor);
    if (!longest)
        return;
    // Counted from when it last woke, so that naps are evenly spaced. A signal may end it early.
    struct timespec until = timespec_of_ns(supervisor->moderation.woke_ns + longest);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

void moderation_woke(struct supervisor *supervisor) {
    supervisor->moderation.woke_ns = monotonic_ns();
}

void moderation_start(struct supervisor *supervisor) {
    cpu_set_t allowed;
    // Fails on machines with more processors than a cpu_set_t holds.
    supervisor->moderation.processors =
        sched_getaffinity(0, sizeof allowed, &allowed) < 0 ? UINT32_MAX : (uint32_t)CPU_COUNT(&allowed);
    prctl(PR_SET_TIMERSLACK, NAP_SLACK_NS);
}
