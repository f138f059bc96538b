// What a consumer knows of the batches that it got: the checking kernel's counts, each batch's sum of sample numbers,
// which for a part of the batches is compared with what the order says, and how often each sample came in an epoch.
#ifndef FEEDD_BENCH_GPU_TALLY_H
#define FEEDD_BENCH_GPU_TALLY_H

#include "bench/gpu/streams.h"
#include "client/feed.h"

struct tally;

// by_sum: the words of a sample count by their sum, else each for itself.
struct tally *tally_open(const struct streams *streams, const struct feed *feed, bool by_sum);

// Queues the check of a batch that `stream`, one of the streams, waits for; of the first field.
void tally_batch(struct tally *tally, const struct feed *feed, const struct feed_batch *batch,
                 work_stream stream);

// When the GPU has finished: prints the members of a JSON object.
void tally_report(struct tally *tally);

// 1, with a sentence, if anything was wrong, else 0.
int tally_close(struct tally *tally);

#endif
