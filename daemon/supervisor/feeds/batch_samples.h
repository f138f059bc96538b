// Which samples of a dataset, view or mix stand in a batch, and how many bytes they have in ragged fields. It holds the
// samples of one chunk at a time.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_BATCH_SAMPLES_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_BATCH_SAMPLES_H

#include "base/error.h"
#include "daemon/supervisor/feeds/attach_request.h"
#include "order/partition.h"
#include "shm/ring.h"

struct batch_samples;

// The shape's dataset must outlive it. Of a mix, this may take some ten milliseconds, so not on the loop.
int batch_samples_open(const struct feed_shape *shape, const struct ring_header *header,
                       struct batch_samples **made, struct error *error);
// NULL is fine.
void batch_samples_close(struct batch_samples *samples);

// Finds samples first..first+count-1 of a batch, at most a chunk of them. The functions below number them from 0. Those
// that follow are looked up with them: the rest of the batch, and, while one batch after another is asked for, the next
// ones, because many are found faster.
void batch_samples_find(struct batch_samples *samples, const struct batch_place *place, uint32_t first,
                        uint32_t count);

// Puts another into the place of sample i: the one of this attempt (order/replace.h).
void batch_samples_replace(struct batch_samples *samples, uint32_t i, uint32_t attempt);

// Whether sample i is incomplete, or was marked. A sample that was marked may be forgotten, because another has taken
// its place in the memory, which does not grow.
bool batch_samples_is_bad(const struct batch_samples *samples, uint32_t i);
void batch_samples_mark_bad(struct batch_samples *samples, uint32_t i);

// The bytes of sample i, and of samples 0..count-1 together, in a ragged field, which are numbered from 0 here.
uint64_t batch_samples_bytes(const struct batch_samples *samples, uint32_t field, uint32_t i);
uint64_t batch_samples_sum(const struct batch_samples *samples, uint32_t field, uint32_t count);

#endif
