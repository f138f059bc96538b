// The preadv reader: a few threads that read, for systems where io_uring is forbidden.
#ifndef FEEDD_DAEMON_LOADER_READ_READER_PREAD_H
#define FEEDD_DAEMON_LOADER_READ_READER_PREAD_H

#include "daemon/loader/read/reader.h"

reader_open reader_open_pread;

#endif
