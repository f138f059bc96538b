// The io_uring reader. Submit prepares requests, and reap gives them to the kernel together.
#ifndef FEEDD_DAEMON_LOADER_READ_READER_URING_H
#define FEEDD_DAEMON_LOADER_READ_READER_URING_H

#include "daemon/loader/read/reader.h"

// READER_URING at first; READER_URING_FIXED once the memory that it reads into is registered. *reason: on failure, why
// there is no io_uring.
reader_open reader_open_uring;

#endif
