// What a consumer knows about its batches: the checking kernel's counts, each batch's sum of sample numbers, which is
// compared with the order for some of the batches, and how often each sample came in an epoch.
#ifndef FEEDD_BENCH_GPU_TALLY_H
#define FEEDD_BENCH_GPU_TALLY_H

#include "bench/gpu/streams.h"
#include "client/feed.h"

struct tally;

// by_sum: checks the sum of a sample's words instead of each word.
struct tally *tally_open(const struct streams *streams, const struct feed *feed, bool by_sum);

// Queues the check of a batch's first field on `stream`, the one that waits for the batch.
void tally_batch(struct tally *tally, const struct feed *feed, const struct feed_batch *batch,
                 work_stream stream);

// Once the GPU has finished, prints the members of a JSON object.
void tally_report(struct tally *tally);

// 1, with a sentence, if anything was wrong, else 0.
int tally_close(struct tally *tally);

#endif
