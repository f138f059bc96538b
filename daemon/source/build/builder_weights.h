// The table of a view that draws its samples by weight (weights).
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_WEIGHTS_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_WEIGHTS_H

#include "daemon/source/build/builder_choice.h"

// Reads the view's file, which must have a weight for each sample of the dataset, makes the table in sealed memory, the
// dataset's list_fd, and describes the selection. Only what is chosen can be drawn: a sample counts as often as it is
// chosen. The list of chosen samples is released.
int builder_weights(struct builder *builder, struct choice *choice, struct selection *selection);

#endif
