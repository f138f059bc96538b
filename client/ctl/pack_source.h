// The dataset, view or mix that feedctl pack reads: what the daemon says of it, and attaching to it.
#ifndef FEEDD_CLIENT_CTL_PACK_SOURCE_H
#define FEEDD_CLIENT_CTL_PACK_SOURCE_H

#include "client/ctl/ctl.h"
#include "client/ctl/pack_set.h"
#include "client/feed.h"

struct pack_source {
    const struct ctl *ctl;
    const char *name;
    uint64_t seed;
    bool (*interrupted)(void *context); // as in struct feed_options
    // What the daemon says.
    bool known; // it does not know the size of a dataset whose index it is building
    bool mix;
    bool replaces;  // samples that cannot be read
    bool augmented; // its images differ from epoch to epoch
    uint64_t sample_bytes;
    struct pack_identity identity; // shard_bytes: the caller's
    struct feed *feed;             // NULL: not attached; to be closed
};

// Waits until its index is there.
int pack_source_find(struct pack_source *source, struct error *error);

// Attaches for one epoch, in order, from that position on. Batches are so small that there are several in a shard.
int pack_source_attach(struct pack_source *source, uint64_t position, struct error *error);

// How many samples of it were replaced since the daemon started, by what it can tell.
uint64_t pack_source_replaced(const struct pack_source *source);

#endif
