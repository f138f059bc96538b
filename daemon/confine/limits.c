#include "daemon/confine/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"

#define MOST_POINTS 1000

static bool logs_to_file(void) {
    struct stat status;
    return fstat(STDERR_FILENO, &status) == 0 && S_ISREG(status.st_mode);
}

// With 0, poll() would take not even one; and descriptor 0 is in use.
static bool limit_descriptors(uint32_t descriptors) {
    struct rlimit limit = {1, 1};
    if (descriptors && getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    if (descriptors && descriptors < limit.rlim_max)
        limit.rlim_max = descriptors;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

int limits_close(uint32_t descriptors) {
    const struct rlimit none = {0, 0};
    bool done = setrlimit(RLIMIT_CORE, &none) == 0;
    done = done && (logs_to_file() || setrlimit(RLIMIT_FSIZE, &none) == 0);
    done = done && limit_descriptors(descriptors);
    return done ? 0 : -errno;
}

int limits_drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

void limits_volunteer(int points) {
    char text[16] = "";
    AUTO_CLOSE int file = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (file < 0 || pread(file, text, sizeof text - 1, 0) <= 0)
        return;
    long score = strtol(text, NULL, 10);
    score = (score > 0 ? score : 0) + points;
    int length = snprintf(text, sizeof text, "%ld", score < MOST_POINTS ? score : MOST_POINTS);
    if (pwrite(file, text, (size_t)length, 0) < 0)
        return; // raising it is always allowed; a kernel that disagrees has its reasons
}
