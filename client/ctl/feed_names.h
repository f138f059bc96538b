// Names of feeds. The statistics leave them out where users who may not see each other's can read them; the daemon
// tells each user the names of their own.
#ifndef FEEDD_CLIENT_CTL_FEED_NAMES_H
#define FEEDD_CLIENT_CTL_FEED_NAMES_H

#include "client/ctl/ctl.h"
#include "shm/stats_read.h"

struct feed_name {
    uint64_t id;
    char name[STATS_NAME], dataset[STATS_NAME]; // empty: not for this user
};

// What the daemon has said so far. Zeroed at first.
struct feed_names {
    uint64_t pid, started_ns; // of that daemon
    uint64_t failed_ns;       // when it last did not answer
    uint32_t count;
    struct feed_name known[STATS_MAX_FEEDS];
};

// Fills in names that the snapshot lacks. Asks the daemon at most once, and not at all if it seems to hang or is known
// to keep these names to itself; without an answer, which is waited for only briefly, names stay empty.
void feed_names_fill(struct feed_names *names, const struct ctl *ctl, struct stats_snapshot *snapshot);

#endif
