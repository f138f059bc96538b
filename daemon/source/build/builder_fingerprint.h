// The fingerprint of a dataset: the same for the same data on every machine, and different for other data or transforms
// (except by chance). Resume tokens carry it. Not hashed: paths, times, and where fields lie in a file.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_FINGERPRINT_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_FINGERPRINT_H

#include "daemon/source/build/builder.h"

int builder_fingerprint(struct builder *builder);

#endif
