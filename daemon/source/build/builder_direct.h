// Switches the files of a dataset to O_DIRECT once headers and fingerprint have been read, and learns what alignment
// that requires.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_DIRECT_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_DIRECT_H

#include "daemon/source/build/builder.h"

int builder_make_direct(struct builder *builder);

#endif
