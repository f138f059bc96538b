// The mapped reader: copies from read-only maps of the files. Submit queues, reap copies.
//
// No madvise: a fault maps the pages around it that are in the page cache, and for the few that are not, the kernel's
// own read-ahead suits samples of several pages (MADV_RANDOM would read them one page at a time).
//
// The processor's own prefetching ends with the page, and the next sample may be anywhere. So while one block is
// copied, the block AHEAD_BYTES further on in the queue is fetched into the cache; bench/README.md has the gain. Large
// pieces are copied with one memcpy, which is no slower then.
//
// Files that cannot be mapped (file_maps.h) are read with preadv(2), one request at a time, and so is what faults: the
// read tells a file that has shrunk from storage that fails.
#ifndef FEEDD_DAEMON_LOADER_READ_READER_MAPPED_H
#define FEEDD_DAEMON_LOADER_READ_READER_MAPPED_H

#include "daemon/loader/read/reader.h"

// -ENOTSUP with delay_us.
reader_open reader_open_mapped;

#endif
