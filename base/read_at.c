#include "base/read_at.h"

#include <errno.h>
#include <unistd.h>

ssize_t read_at(int fd, void *memory, size_t bytes, uint64_t offset) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(fd, (char *)memory + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}
