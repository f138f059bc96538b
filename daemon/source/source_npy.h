// Format npy, NumPy's own, versions 1.0 to 3.0: a magic string, the version, the header's length, and a header that is
// the literal of a Python dictionary.
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_NPY_H
#define FEEDD_DAEMON_SOURCE_SOURCE_NPY_H

#include "daemon/source/build/arrays.h"
#include "daemon/source/source_format.h"

extern const struct source_format source_npy;

array_read_header npy_read_header;

#endif
