// The samples of a view.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_SELECT_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_SELECT_H

#include "daemon/source/build/builder.h"

// Describes the selection of a view, makes its list in sealed memory if it has one, and says how many samples there
// are. Does nothing for a dataset.
int builder_select(struct builder *builder);

#endif
