#include "daemon/supervisor/feeds/cache.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/scope.h"

#define INDEXES 8

// One line of a file in sysfs.
static bool read_line(int index, const char *name, char *text, int bytes) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    FILE *file CLEANUP(close_file) = fopen(path, "re");
    return file && fgets(text, bytes, file);
}

// What sysfs says, as in lscpu. sysconf() trusts cpuid, which in a virtual machine may report the cache of the whole
// package although this machine has only a part of it.
static uint64_t look(void) {
    unsigned long deepest = 0;
    uint64_t bytes = 0;
    for (int index = 0; index < INDEXES; index++) {
        char text[32];
        if (!read_line(index, "level", text, sizeof text))
            break;
        unsigned long level = strtoul(text, NULL, 10);
        if (level < deepest || !read_line(index, "size", text, sizeof text))
            continue;
        deepest = level;
        bytes = strtoull(text, NULL, 10) * 1024; // always in K
    }
    if (bytes)
        return bytes;
    long told = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return told > 0 ? (uint64_t)told : 0;
}

// It does not change, and reading it takes as long as all else that a new feed's ring is planned from.
uint64_t cache_last_level_bytes(void) {
    static uint64_t bytes;
    if (!bytes)
        bytes = look();
    return bytes;
}
