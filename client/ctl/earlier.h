// The same thing in an earlier snapshot of the same daemon. Pure.
#ifndef FEEDD_CLIENT_CTL_EARLIER_H
#define FEEDD_CLIENT_CTL_EARLIER_H

#include "shm/stats_read.h"

// NULL: it was not there, or `before` is NULL or of another daemon.
const struct stats_feed_snapshot *earlier_feed(const struct stats_snapshot *before,
                                               const struct stats_snapshot *now, uint64_t id);

// NULL also if the GPU was given up and taken again since.
const struct stats_gpu_snapshot *earlier_gpu(const struct stats_snapshot *before,
                                             const struct stats_snapshot *now,
                                             const struct stats_gpu_snapshot *gpu);

#endif
