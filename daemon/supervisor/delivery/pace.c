#include "daemon/supervisor/delivery/pace.h"

#include "base/sizes.h"
#include "base/time.h"
#include "shm/ring_supervisor.h"

#define PACE_WINDOW_NS (2 * NS_PER_MS)

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
    if (!pace->interval_ns || pace->interval_ns > PACE_NAP_MOST_NS)
        return NAP_ANY;
    return min_u64(batches * pace->interval_ns, PACE_NAP_MOST_NS);
}
