// What feedctl top shows, as it was at two looks: the statistics, and, from the daemon, its consumers.
#ifndef FEEDD_CLIENT_CTL_TOP_GATHER_H
#define FEEDD_CLIENT_CTL_TOP_GATHER_H

#include "client/ctl/look.h"
#include "client/ctl/query.h"

struct top_client {
    uint64_t session, pid, feed, batches;
    uint32_t user, rank, held, prefetch;
    bool waiting;
    char name[STATS_NAME], device[STATS_NAME], state[16];
};

// One look. Too large for the stack.
struct top_look {
    struct stats_snapshot stats;
    uint32_t loader_count;
    struct stats_loader_snapshot loaders[STATS_MAX_LOADERS];
    uint64_t asked_ns; // when the daemon answered; 0: it did not
    uint32_t client_count, client_room;
    struct top_client *clients; // consumers alone
};

struct gathered {
    struct look look;
    struct connection connection; // that is kept between looks
    uint64_t failed_ns;           // when the daemon last did not answer
    struct top_look before, now;
    bool have_before;
};

int gather_open(struct gathered *gathered, const struct ctl *ctl, struct error *error);
// What is new becomes old, and everything is looked at again. Negative: there are no statistics any more.
int gather(struct gathered *gathered, struct error *error);
void gather_close(struct gathered *gathered);

#endif
