// The end of opening a dataset, after its format has added fields, streams and files.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_FINISH_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_FINISH_H

#include "daemon/source/build/builder.h"

// Checks what no single file shows, fits transforms, takes the fingerprint, switches to O_DIRECT where that is wanted.
int builder_finish(struct builder *builder);

#endif
