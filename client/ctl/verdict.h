// What a feed is bound by, from two looks at the statistics: what would have to be faster, the shares of time behind
// that, and what to change. Pure.
#ifndef FEEDD_CLIENT_CTL_VERDICT_H
#define FEEDD_CLIENT_CTL_VERDICT_H

#include "client/ctl/rates.h"

enum bound {
    BOUND_IDLE,      // no consumer is attached
    BOUND_NONE,      // nothing yet: nobody waits much
    BOUND_CONSUMERS, // complete batches wait for the consumers
    BOUND_LOADERS,   // consumers wait for loaders, which need the processor most to plan and copy reads
    BOUND_DECODING,  // ... to decode or transform samples
    BOUND_STORAGE,   // ... and which wait for the storage most
    BOUND_BUS,       // consumers wait for copies to the GPU
    BOUND_POOL,      // copies wait for room in the GPU's pool, which consumers' work on the GPU keeps
    BOUND_RANK,      // consumers wait for a slower one that gets the same batches
    BOUND_HANDOVER,  // consumers wait although loaders have nothing to do
    BOUNDS
};

struct verdict {
    enum bound bound;
    const char *hint; // a sentence
    // Shares of the consumers' time: waiting, and of that for what.
    double data_wait, wait_loaders, wait_copy, wait_pool, wait_rank, wait_others;
    // Of the time: there was a complete batch that a consumer had yet to take.
    double ready;
    // Of the loaders' time, which these four add up to.
    double room_wait, io_wait, decode, fill;
    double cpu; // of the loaders' time: on a processor
    // Of the time, of the GPUs that the feed is delivered to: copying; all copies waited for consumers' streams.
    double copying, release_wait;
};

// `feed` is one of now->feeds. Over the time since `before`, or since the feed started if that is NULL or does not know
// the feed.
void verdict_of(const struct stats_snapshot *before, const struct stats_snapshot *now,
                const struct stats_feed_snapshot *feed, struct verdict *verdict);

// "idle", "none", "consumers", "loaders", "decoding", "storage", "bus", "pool", "rank", "handover".
const char *verdict_word(enum bound bound);

// "bound by the storage", for a sentence.
const char *verdict_phrase(enum bound bound);

#endif
