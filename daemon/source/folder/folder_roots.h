// The folders that a dataset's files may lie beneath: `path`, and those that `links` allows symbolic links to lead to.
// Links are resolved while the dataset is indexed, and only then: loaders follow none.
#ifndef FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_ROOTS_H
#define FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_ROOTS_H

#include <limits.h>
#include <sys/stat.h>

#include "base/time.h"
#include "daemon/source/build/builder.h"

struct folder_root {
    int fd;
    char *path; // as the configuration has it
    char *real; // without links
};

struct folder_roots {
    struct folder_root *roots; // the first one is `path`
    uint32_t count;
};

int folder_roots_open(struct builder *builder, struct folder_roots *roots);
void folder_roots_close(struct folder_roots *roots);

// A time as one number, of which only differences tell anything.
static inline int64_t folder_written_ns(int64_t seconds, uint32_t ns) {
    return (int64_t)((uint64_t)seconds * NS_PER_S + ns);
}

// What a name leads to.
struct folder_place {
    struct stat status;
    bool linked;
    uint32_t root;       // if `linked`: where it is
    char path[PATH_MAX]; // ... and its path there; "" is the root itself. Of -EXDEV, where it leads to.
};

// Follows links. -EXDEV: it leads to a place outside of all roots.
int folder_roots_find(const struct folder_roots *roots, int folder, const char *name,
                      struct folder_place *place);

#endif
