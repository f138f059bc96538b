// Format idx, of the MNIST family: two zero bytes, a type, the number of dimensions, their sizes as big-endian 32-bit
// numbers, then the data. Multi-byte types are big-endian too, so their bytes cannot be delivered as they are.
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_IDX_H
#define FEEDD_DAEMON_SOURCE_SOURCE_IDX_H

#include "daemon/source/source_format.h"

extern const struct source_format source_idx;

#endif
