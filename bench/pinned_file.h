// A file in memory that is registered with a GPU, as a transfer process has its JPEGs.
#ifndef FEEDD_BENCH_PINNED_FILE_H
#define FEEDD_BENCH_PINNED_FILE_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "gpu/gpu.h"

// Kept until the process ends. A negative errno and a sentence, or 0.
static inline int pinned_file_read(struct gpu *gpu, const char *path, uint8_t **bytes, size_t *count,
                                   struct error *error) {
    struct stat status;
    uint64_t address;
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(error, -errno, "cannot read %s: %m", path);
    const uint64_t room = align_up((uint64_t)status.st_size + 1, 4096);
    void *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "no memory for %s: %m", path);
    if (read(fd, memory, room) != status.st_size)
        return error_set(error, -EIO, "cannot read all of %s", path);
    *bytes = memory;
    *count = (size_t)status.st_size;
    return gpu_host_register(gpu, memory, room, false, &address, error);
}

#endif
