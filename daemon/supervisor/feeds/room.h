// Room for a feed in what all feeds share and a feed gives back only when it is gone: records in the statistics, loader
// processes, memory in /dev/shm. Feeds that want room wait for it as FEED_QUEUED; idle feeds make way, the one idle for
// longest first.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_ROOM_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_ROOM_H

#include "base/error.h"
#include "daemon/supervisor/feeds/served_feed.h"

// Whether a queued feed has room now, after those queued before it. 0: it has. 1: not yet, because closed feeds are
// still ending, some of which this call may have closed; ask again when one of them is gone, and on the tick, as they
// are not waited for indefinitely. -EBUSY or -ENOSPC: there is none to be had; nothing was closed.
int room_find(struct served_feed *feed, struct error *error);

// For a lack that only shows when something is tried: gives up what is prepared for the next ring, or closes an idle
// feed, unless closed ones are still ending. True: try again when one of them is gone.
bool room_make_way(struct supervisor *supervisor);

// Memory of feeds that have ended, or are ending, is still to be given back.
bool room_is_being_made(const struct supervisor *supervisor);

// The bytes of /dev/shm that a new ring can have, once idle feeds have made way.
uint64_t room_ring_bytes(const struct supervisor *supervisor);

// The bytes of rings that count towards ring_memory when a feed asks for room: of feeds that have room, also while they
// close, and of closed ones until it has been freed.
uint64_t room_held_bytes(const struct supervisor *supervisor);

#endif
