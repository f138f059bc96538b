#include "daemon/dataset/list_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sizes.h"
#include "base/time.h"

#define STEP_BYTES (64 * MIB)
// A child that was forked between the two calls of list_memory_map has the memory mapped until it has become another
// program.
#define BUSY_MOST_NS  (5 * NS_PER_S)
#define BUSY_AGAIN_NS (2 * NS_PER_MS)

int list_memory_create(void) {
    int fd = memfd_create("feedd-list", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd >= 0 ? fd : -errno;
}

static int allocate(int fd, uint64_t bytes, _Atomic uint64_t *progress) {
    for (uint64_t at = 0; at < bytes; at += STEP_BYTES) {
        int err;
        do {
            err = posix_fallocate(fd, (off_t)at, (off_t)min_u64(STEP_BYTES, bytes - at));
        } while (err == EINTR);
        if (err)
            return -err;
        if (progress)
            atomic_fetch_add_explicit(progress, 1, memory_order_relaxed);
    }
    return 0;
}

int list_memory_map(int fd, uint64_t bytes, _Atomic uint64_t *progress, struct dataset_list **list) {
    int err = allocate(fd, bytes, progress);
    if (err)
        return err;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    madvise(map, bytes, MADV_DONTFORK); // a child that has it mapped, too, would keep it from being sealed
    *list = map;
    (*list)->bytes = bytes;
    return 0;
}

void list_memory_unmap(struct dataset_list **list, uint64_t bytes) {
    for (uint64_t at = 0; *list && at < bytes; at += STEP_BYTES)
        munmap((uint8_t *)*list + at, min_u64(STEP_BYTES, bytes - at));
    *list = NULL;
}

int list_memory_write(int fd, const void *bytes, size_t count, uint64_t offset) {
    ssize_t wrote = pwrite(fd, bytes, count, (off_t)offset);
    if (wrote == (ssize_t)count)
        return 0;
    return wrote < 0 ? -errno : -ENOMEM;
}

int list_memory_seal(int fd) {
    const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
    const struct timespec pause = timespec_of_ns(BUSY_AGAIN_NS);
    const uint64_t until = monotonic_ns() + BUSY_MOST_NS;
    while (fcntl(fd, F_ADD_SEALS, seals) < 0) {
        if (errno != EBUSY || monotonic_ns() >= until)
            return -errno;
        nanosleep(&pause, NULL);
    }
    return 0;
}
