// Columns of an index that are delivered without a read: values, and what windows of tokens hold of documents. Private
// to chunk_build.c.
#ifndef FEEDD_DAEMON_LOADER_CHUNK_VALUES_H
#define FEEDD_DAEMON_LOADER_CHUNK_VALUES_H

#include "daemon/loader/chunk.h"

// Writes the field of every sample of the plan's claim.
void chunk_make_values(const struct chunk_plan *plan, const struct chunk_segment *segment);

#endif
