// Dataset format `packed`: shards that feedctl pack has made.
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_PACKED_H
#define FEEDD_DAEMON_SOURCE_SOURCE_PACKED_H

#include "daemon/source/source_format.h"

extern const struct source_format source_packed;

#endif
