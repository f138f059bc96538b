#include "gpu/gpu_host_range.h"

#include <pthread.h>

#include "base/error.h"

static struct host_ranges registered = LIST_HEAD_INITIALIZER(registered);
static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;

bool host_ranges_hold(const struct host_ranges *ranges, uint64_t address, uint64_t bytes, bool to_write) {
    const struct host_range *range;
    LIST_FOREACH(range, ranges, link) {
        uint64_t begin = (uint64_t)(uintptr_t)range->begin;
        if (address >= begin && bytes <= range->bytes && address - begin <= range->bytes - bytes)
            return range->writable || !to_write;
    }
    return false;
}

bool host_registrations_hold(uint64_t address, uint64_t bytes, bool to_write) {
    pthread_mutex_lock(&registered_lock);
    bool hold = host_ranges_hold(&registered, address, bytes, to_write);
    pthread_mutex_unlock(&registered_lock);
    return hold;
}

int host_registration_add(void *memory, uint64_t bytes, bool writable, struct error *error) {
    struct host_range *range = calloc(1, sizeof *range);
    if (!range)
        return error_set(error, -ENOMEM, "no memory for a registration");
    *range = (struct host_range){.begin = memory, .bytes = bytes, .writable = writable};
    const struct host_range *other;
    bool overlaps = false;
    pthread_mutex_lock(&registered_lock);
    LIST_FOREACH(other, &registered, link) {
        overlaps |= range->begin < other->begin + other->bytes && other->begin < range->begin + bytes;
    }
    if (!overlaps)
        LIST_INSERT_HEAD(&registered, range, link);
    pthread_mutex_unlock(&registered_lock);
    if (!overlaps)
        return 0;
    free(range);
    return error_set(error, -EIO, "invalid argument: part of this memory is registered already");
}

void host_registration_remove(void *memory) {
    struct host_range *range;
    pthread_mutex_lock(&registered_lock);
    LIST_FOREACH(range, &registered, link) {
        if (range->begin == memory)
            break;
    }
    if (range)
        LIST_REMOVE(range, link);
    pthread_mutex_unlock(&registered_lock);
    free(range);
}
