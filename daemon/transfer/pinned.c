#include "daemon/transfer/pinned.h"

#include <sys/mman.h>

#include "base/sizes.h"
#include "shm/ring.h"

int pinned_open(struct pinned *pinned, struct gpu *gpu, uint64_t bytes, struct error *error) {
    uint64_t address, size = align_up(bytes, RING_PAGE);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "no memory for images: %m");
    int err = gpu_host_register(gpu, memory, size, false, &address, error);
    if (err)
        munmap(memory, size);
    else
        *pinned = (struct pinned){memory, size};
    return err;
}

void pinned_close(struct pinned *pinned, struct gpu *gpu) {
    if (!pinned->memory)
        return;
    gpu_host_unregister(gpu, pinned->memory);
    munmap(pinned->memory, pinned->bytes);
    *pinned = (struct pinned){0};
}
