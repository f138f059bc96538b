// Shared by the programs that attach to feedd on a GPU: the options of a feed, and its device.
#ifndef FEEDD_BENCH_GPU_OPTIONS_H
#define FEEDD_BENCH_GPU_OPTIONS_H

#include "bench/consumer.h"
#include "bench/gpu/work.h"

// The same for the feed and for this process's own work: both count the GPUs that this process sees.
#define GPU_CONSUMER_OPTIONS                                                                                 \
    CONSUMER_OPTIONS, {                                                                                      \
        "device", 1, NULL, 'D'                                                                               \
    }
#define GPU_CONSUMER_USAGE                                                                                   \
    "--socket PATH --dataset NAME [--device cuda:0] [--batch-size N] [--shuffle] [--seed S]\n"               \
    "       [--share NAME] [--rank R --world-size W] [--wait-for K] [--prefetch P] [--ring-bytes N]\n"

#define GPU_START_SECONDS 60 // that attaching and ending may take

static inline bool gpu_consumer_option(struct feed_options *feed, int letter, const char *name,
                                       const char *value) {
    if (letter != 'D')
        return consumer_option(feed, letter, name, value);
    feed->device = value;
    return true;
}

#endif
