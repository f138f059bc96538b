// The clocks of a feed: how long its consumers wait, and for what; how long batches are held, and how long complete
// ones wait. They are counted whenever something may have changed, so what was true since the last look is what was
// seen then.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_CLOCK_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_FEED_CLOCK_H

#include "daemon/supervisor/feeds/served_feed.h"

// A consumer has nothing left and asks for more; it has been granted something, or leaves.
void feed_clock_wait_begins(struct consumer *consumer, uint64_t now);
void feed_clock_wait_ends(struct served_feed *feed, struct consumer *consumer, uint64_t now);

// A consumer was granted what is in these slots; when that was, before it releases one (0: it does not hold it); it has
// released one after so long.
void feed_clock_granted(struct delivery *delivery, const uint32_t *slots, uint32_t count, uint64_t now);
uint64_t feed_clock_granted_ns(const struct delivery *delivery, const struct consumer *consumer,
                               uint32_t slot);
void feed_clock_released(struct member *member, uint32_t slot, uint64_t granted_ns, uint64_t now);

// After batches have been granted or released, and with every tick. The feed's ring is open.
void feed_clock_look(struct served_feed *feed, uint64_t now);

#endif
