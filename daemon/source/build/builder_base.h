// Views of an open dataset. They share its files, its index and what the daemon knows about both, and start from its
// fields as they are stored.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_BASE_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_BASE_H

#include "daemon/source/build/builder.h"

// For a dataset, before its transforms are added: keeps what its views start from.
int builder_keep_stored(struct builder *builder);

// For a view, instead of opening files: takes all of that from `base`, with a reference, and adds the view's own pads.
int builder_base(struct builder *builder, struct dataset *base);

#endif
