// Rings of closed feeds in which a consumer may still be reading: the daemon ended its session while it held batches.
// They stay as they are for a while, so that it can finish with those, and count as its user's memory; then the memory
// is freed, even if clients still have it mapped.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_KEPT_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_KEPT_H

#include "daemon/supervisor/feeds/served_feed.h"

#define KEPT_NS (10 * NS_PER_S)

// Notes that this member, which is leaving, may still be reading.
void kept_note(struct served_feed *feed, const struct member *member);

// Takes over the descriptors of a feed's ring, and gives its memory back at once, or when the time has come.
void kept_take(struct served_feed *feed);

// The memory of closed feeds of that user, or CLOSER_ANYBODY, that is still to be given back.
uint64_t kept_bytes(const struct supervisor *supervisor, uid_t user);

void kept_tick(struct supervisor *supervisor, uint64_t now);

// Leaves what is kept to those that have it mapped: the daemon ends.
void kept_leave(struct supervisor *supervisor);

#endif
