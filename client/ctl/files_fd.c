#include "client/ctl/files_fd.h"

#include <inttypes.h>
#include <string.h>

#include "base/read_at.h"

int files_fd_read(int fd, const char *path, uint64_t offset, void *bytes, size_t count, struct error *error) {
    const ssize_t got = read_at(fd, bytes, count, offset);
    if (got == (ssize_t)count)
        return 0;
    return error_set(
        error, got < 0 ? (int)got : -ENODATA, "cannot read %s at offset %" PRIu64 " to verify: %s", path,
        offset + (got < 0 ? 0 : (uint64_t)got), got < 0 ? strerror((int)-got) : "the file ends there");
}
