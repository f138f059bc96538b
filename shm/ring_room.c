#include "shm/ring_room.h"

#include <inttypes.h>
#include <sys/statvfs.h>

#include "base/sizes.h"
#include "shm/memory_limit.h"

#define GROUP_RESERVE (32 * MIB)

static uint64_t free_in_folder(void) {
    struct statvfs room;
    if (statvfs(SHM_FOLDER, &room) < 0)
        return UINT64_MAX; // unknown: allocating the ring will tell
    return room.f_blocks ? (uint64_t)room.f_bavail * room.f_frsize : UINT64_MAX; // no size: no limit
}

// Of what the control groups allow, without what loaders need to work.
static uint64_t free_in_group(const struct memory_limit *limit) {
    return limit->free_bytes == UINT64_MAX ? UINT64_MAX
                                           : limit->free_bytes - min_u64(GROUP_RESERVE, limit->free_bytes);
}

uint64_t ring_free_bytes(void) {
    const struct memory_limit limit = memory_limit_read();
    return min_u64(free_in_folder(), free_in_group(&limit));
}

int ring_no_room(uint64_t bytes, int code, struct error *error) {
    const struct memory_limit limit = memory_limit_read();
    if (free_in_group(&limit) < free_in_folder())
        return error_set(error, code,
                         "a ring of %" PRIu64 " MiB does not fit: the memory limit of %s is %" PRIu64
                         " MiB, of which a ring may have %" PRIu64
                         " MiB now; ask for smaller batches, set a smaller ring in feedd.conf, or raise the "
                         "limit (MemoryMax= in the systemd unit)",
                         mib_up(bytes), limit.group, limit.limit_bytes / MIB, free_in_group(&limit) / MIB);
    return error_set(
        error, code,
        "a ring of %" PRIu64 " MiB does not fit: " SHM_FOLDER " has %" PRIu64
        " MiB free; ask for smaller batches, set a smaller ring in feedd.conf, or enlarge " SHM_FOLDER
        " (feedctl doctor says how)",
        mib_up(bytes), free_in_folder() / MIB);
}
