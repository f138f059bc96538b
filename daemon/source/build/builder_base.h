// Views of a dataset that is open: they share its files, its index and what the daemon knows of both, and begin with
// its fields as they are stored.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_BASE_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_BASE_H

#include "daemon/source/build/builder.h"

// Of a dataset, before transforms are added: keeps what its views begin with.
int builder_keep_stored(struct builder *builder);

// Of a view, in place of opening files: takes all that from `base`, with a reference, and gives fields pads of its own.
int builder_base(struct builder *builder, struct dataset *base);

#endif
