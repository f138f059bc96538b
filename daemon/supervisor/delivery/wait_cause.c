#include "daemon/supervisor/delivery/wait_cause.h"

#include "daemon/supervisor/delivery/filler.h"
#include "daemon/supervisor/delivery/lane.h"
#include "daemon/supervisor/delivery/window.h"

// The first batch that it has not released, if it releases them in order.
static uint64_t oldest(const struct consumer *consumer) {
    return consumer->cursor - consumer->held_count;
}

// Another consumer of the lane keeps batches, in the window or leased, that this one has released.
static bool other_is_behind(const struct lane *lane, const struct consumer *consumer) {
    const struct consumer *other;
    LIST_FOREACH(other, &lane->consumers, link)
        if (other != consumer && !consumer_at_end(other) && oldest(other) < oldest(consumer))
            return true;
    return false;
}

// Then whoever holds the slots that exist already is not the reason.
static bool waits_for_new_slots(const struct delivery *delivery, const struct lane *lane) {
    return slots_are_coming(delivery) && lane->slots_used < lane_quota(delivery);
}

enum wait_cause wait_cause_of(const struct delivery *delivery, const struct consumer *consumer) {
    const struct filler_operations *filler = filler_of(delivery);
    const struct lane *lane = consumer->lane;
    if (consumer->cursor < window_end(lane))
        return filler->filling;
    if (lane_full(delivery, lane) && !waits_for_new_slots(delivery, lane))
        return other_is_behind(lane, consumer) ? WAIT_RANK : filler->no_slot;
    if (!filler_ready(delivery, lane) && filler->waits_for)
        return filler->waits_for(delivery, lane);
    return filler->filling;
}
