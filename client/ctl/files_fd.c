#include "client/ctl/files_fd.h"

#include <inttypes.h>
#include <string.h>

int files_fd_read(int fd, const char *path, uint64_t offset, void *bytes, size_t count, struct error *error) {
    for (size_t done = 0; done < count;) {
        ssize_t got = pread(fd, (uint8_t *)bytes + done, count - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_set(error, got < 0 ? -errno : -ENODATA,
                             "cannot read %s at offset %" PRIu64 " to verify: %s", path, offset + done,
                             got < 0 ? strerror(errno) : "the file ends there");
        done += (size_t)got;
    }
    return 0;
}
