// Format records: fixed-size records, one after another in one or more files, with fields at byte offsets, interleaved.
// With `offsets`: one field of any number of values.
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_RECORDS_H
#define FEEDD_DAEMON_SOURCE_SOURCE_RECORDS_H

#include "daemon/source/source_format.h"

extern const struct source_format source_records;

#endif
