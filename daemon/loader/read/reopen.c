#include "daemon/loader/read/reopen.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/time.h"
#include "daemon/log.h"

#define FILES_MOST 1024u // with more, loaders are rarely at the same one
#define MOST_NS    NS_PER_S

// Where files are far away, opening takes long, and a loader that starts has no heartbeat. So it stops after a while.
void reopen_files(int first, uint32_t count) {
    char path[64];
    if (count > FILES_MOST)
        return;
    const uint64_t until = monotonic_ns() + MOST_NS;
    for (int given = first; given < first + (int)count && monotonic_ns() < until; given++) {
        int flags = fcntl(given, F_GETFL);
        // Leads to the same file, whatever its path now names; permission to read it is checked again.
        snprintf(path, sizeof path, "/proc/self/fd/%d", given);
        AUTO_CLOSE int own = flags < 0 ? -1 : open(path, (flags & ~O_ACCMODE) | O_RDONLY | O_CLOEXEC);
        if (own >= 0 && dup3(own, given, O_CLOEXEC) >= 0)
            continue;
        log_debug("file %d cannot be reopened: %m; loaders share its description", given - first);
        return;
    }
}
