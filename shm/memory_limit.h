// How much more memory the control groups of this process allow. A ring that exceeds it would not fail to be allocated:
// the kernel would end a process of the group instead, perhaps the supervisor.
#ifndef FEEDD_SHM_MEMORY_LIMIT_H
#define FEEDD_SHM_MEMORY_LIMIT_H

#include <stdint.h>

struct memory_limit {
    uint64_t free_bytes;  // UINT64_MAX: there is no limit
    uint64_t limit_bytes; // of the group that allows least
    char group[512];      // its folder
};

// Of this process. Reads a few files of the kernel's, which takes some hundred microseconds at most.
struct memory_limit memory_limit_read(void);

// For tests: `membership` is the text of /proc/self/cgroup, and the groups are found below `root` (/sys/fs/cgroup).
struct memory_limit memory_limit_of(const char *membership, const char *root);

#endif
