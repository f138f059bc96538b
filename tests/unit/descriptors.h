// How many descriptors this process has open, to see that none is left behind or closed twice.
#ifndef FEEDD_TESTS_UNIT_DESCRIPTORS_H
#define FEEDD_TESTS_UNIT_DESCRIPTORS_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline unsigned open_descriptors(void) {
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

#endif
