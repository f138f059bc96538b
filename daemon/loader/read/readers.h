// All readers:
//   uring   io_uring, for what must come from storage
//   mapped  copies from read-only maps, for what is in the page cache already; reads files that cannot be mapped
//   pread   threads, where io_uring is forbidden
#ifndef FEEDD_DAEMON_LOADER_READ_READERS_H
#define FEEDD_DAEMON_LOADER_READ_READERS_H

#include "base/error.h"
#include "daemon/io_mode.h"
#include "daemon/loader/read/reader.h"

// Opens the reader of a mode (not IO_AUTO), or the one that stands in for it where it cannot be had: then a warning is
// logged, and *reason says why.
int readers_open(enum io_mode mode, const struct reader_options *options, struct reader **reader,
                 enum reader_reason *reason, struct error *error);

#endif
