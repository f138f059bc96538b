// Arrow IPC files and streams, as pyarrow and Hugging Face's datasets write them.
//
// Their values lie in the files as they are delivered, so that loaders read them in place; the index says where. It is
// made of metadata and offsets alone, except for numbers, which are kept in it. Of compressed files, loaders decode
// what they need (block.h). Dictionaries are refused, and rows with a null are
// incomplete samples (incomplete.h).
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_ARROW_H
#define FEEDD_DAEMON_SOURCE_SOURCE_ARROW_H

#include "daemon/source/source_format.h"

extern const struct source_format source_arrow;

#endif
