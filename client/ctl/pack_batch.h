// From a batch to the samples of a shard.
#ifndef FEEDD_CLIENT_CTL_PACK_BATCH_H
#define FEEDD_CLIENT_CTL_PACK_BATCH_H

#include "client/ctl/pack_shard.h"
#include "client/feed.h"

// Adds all samples of the batch, in the order of the epoch. Until the batch has been released without an error, the
// shard must not be finished: its memory may have been reused meanwhile.
int pack_batch(struct pack_shard *shard, const struct feed *feed, const struct feed_batch *batch,
               struct error *error);

#endif
