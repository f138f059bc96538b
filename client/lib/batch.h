// From a granted slot to the struct feed_batch that the application sees.
#ifndef FEEDD_CLIENT_LIB_BATCH_H
#define FEEDD_CLIENT_LIB_BATCH_H

#include "base/error.h"
#include "client/lib/attachment.h"

// Queues the work that makes images of all batches that were granted, the next ones too: it is done while the
// application uses this one.
int batch_finish(struct attachment *attachment, struct error *error);

// Hands out the oldest granted batch; there is one. `fields` describes a full batch. 1, or 0 if the slot is no longer
// ours, and then nothing has changed; -EPROTO if its record makes no sense.
int batch_take(struct attachment *attachment, const struct feed_array *fields, struct feed_batch *batch,
               struct error *error);

#endif
