#include "daemon/source/build/source_read.h"

#include <inttypes.h>
#include <string.h>

#include "base/read_at.h"
#include "daemon/source/source.h"

int source_read(int fd, void *to, size_t bytes, uint64_t offset, struct error *error) {
    ssize_t got = read_at(fd, to, bytes, offset);
    if (got < 0)
        return error_set(error, (int)got, "%zu bytes at offset %" PRIu64 " cannot be read: %s", bytes, offset,
                         strerror((int)-got));
    if ((size_t)got < bytes)
        return error_set(error, -ENODATA, "found the end of the file at byte %" PRIu64,
                         offset + (uint64_t)got);
    atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
    return 0;
}
