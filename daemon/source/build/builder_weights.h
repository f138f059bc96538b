// The table of a view that draws its samples by weight (weights).
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_WEIGHTS_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_WEIGHTS_H

#include "daemon/source/build/builder.h"

// Reads the view's file, which must have a weight for each of the `of` samples, makes the table in sealed memory, the
// dataset's list_fd, and describes the selection.
int builder_weights(struct builder *builder, uint64_t of, struct selection *selection);

#endif
