#include "shm/memory_limit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/sizes.h"

#define PATH_BYTES 512

// The two kinds of hierarchy, version 2 and version 1, name the same things differently.
struct names {
    const char *limit, *usage;
    const char *cache, *shared, *slab; // in memory.stat
};

static const struct names version_2 = {"memory.max", "memory.current", "file ", "shmem ",
                                       "slab_reclaimable "};
static const struct names version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache ",
                                       "total_shmem ", "total_slab_reclaimable "};

static bool read_text(const char *folder, const char *name, char *text, size_t bytes) {
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? -1 : read(fd, text, bytes - 1); // files of the kernel's, which come whole
    if (count < 0)
        return false;
    text[count] = '\0';
    return true;
}

// False: there is none, or it is "max".
static bool read_number(const char *folder, const char *name, uint64_t *number) {
    char text[64], *end;
    if (!read_text(folder, name, text, sizeof text))
        return false;
    *number = strtoull(text, &end, 10);
    return end != text;
}

// A line of memory.stat; 0: there is none.
static uint64_t find_number(const char *text, const char *name) {
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, strlen(name)) == 0)
            return strtoull(line + strlen(name), NULL, 10);
    }
    return 0;
}

// Page cache and slabs that the kernel drops when the group needs memory. Shared memory counts as cache, and stays.
static uint64_t reclaimable(const char *folder, const struct names *names) {
    char text[8192];
    if (!read_text(folder, "memory.stat", text, sizeof text))
        return 0;
    uint64_t cache = find_number(text, names->cache), shared = find_number(text, names->shared);
    return cache - min_u64(shared, cache) + find_number(text, names->slab);
}

static void look_at(const char *folder, const struct names *names, struct memory_limit *least) {
    uint64_t limit, usage;
    if (!read_number(folder, names->limit, &limit) ||
        limit >= INT64_MAX / 2 || // what version 1 calls no limit
        !read_number(folder, names->usage, &usage))
        return;
    uint64_t used = usage - min_u64(reclaimable(folder, names), usage);
    uint64_t free_bytes = limit - min_u64(used, limit);
    if (free_bytes >= least->free_bytes)
        return;
    least->free_bytes = free_bytes;
    least->limit_bytes = limit;
    snprintf(least->group, sizeof least->group, "%s", folder);
}

// From the group up to the root of its hierarchy, which is `below` the root of all of them. In a container the path may
// be that of another name space: then the root is the container's own group.
static void look_upwards(const char *root, const char *below, const struct names *names, const char *path,
                         struct memory_limit *least) {
    char folder[PATH_BYTES];
    struct stat status;
    size_t top = (size_t)snprintf(folder, sizeof folder, "%s%s", root, below);
    if (top >= sizeof folder)
        return;
    if (snprintf(folder + top, sizeof folder - top, "%s", path) >= (int)(sizeof folder - top) ||
        stat(folder, &status) < 0)
        folder[top] = '\0';
    for (;;) {
        look_at(folder, names, least);
        char *slash = strrchr(folder + top, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

// One line of /proc/self/cgroup: number, controllers, path, with colons between.
static void look_at_line(char *line, const char *root, struct memory_limit *least) {
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return;
    *path++ = '\0';
    controllers++;
    if (strcmp(path, "/") == 0)
        *path = '\0';
    if (*controllers == '\0') {
        look_upwards(root, "", &version_2, path, least);
        look_upwards(root, "/unified", &version_2, path, least);
    } else if (has_word(controllers, "memory")) {
        look_upwards(root, "/memory", &version_1, path, least);
    }
}

struct memory_limit memory_limit_of(const char *membership, const char *root) {
    struct memory_limit least = {.free_bytes = UINT64_MAX};
    char text[4096], *rest = text, *line;
    snprintf(text, sizeof text, "%s", membership);
    while ((line = strsep(&rest, "\n")))
        look_at_line(line, root, &least);
    return least;
}

struct memory_limit memory_limit_read(void) {
    char text[4096];
    if (!read_text("/proc/self", "cgroup", text, sizeof text))
        return (struct memory_limit){.free_bytes = UINT64_MAX};
    return memory_limit_of(text, "/sys/fs/cgroup");
}
