// One look at a daemon's statistics, by path, for the commands that show them.
#ifndef FEEDD_CLIENT_CTL_LOOK_H
#define FEEDD_CLIENT_CTL_LOOK_H

#include "client/ctl/ctl.h"
#include "client/ctl/feed_names.h"
#include "client/ctl/rates.h"
#include "shm/stats_loaders.h"

struct look {
    const struct ctl *ctl;
    char path[4096]; // of the statistics
    struct feed_names names;
};

// 0, or negative with the error filled.
int look_open(struct look *look, const struct ctl *ctl, struct error *error);

// Opens the statistics anew each time: a daemon that was restarted has a new file. Names of feeds that they lack are
// asked of the daemon.
int look_at(struct look *look, struct stats_snapshot *snapshot, struct error *error);

// The loaders at work. Returns how many there are: none if the statistics cannot be read.
uint32_t look_at_loaders(const struct look *look, struct stats_loader_snapshot list[STATS_MAX_LOADERS]);

// What the snapshot and the process say of the daemon.
enum daemon_state look_state(const struct stats_snapshot *snapshot);

#endif
