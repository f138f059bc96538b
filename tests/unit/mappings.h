// What a process has mapped.
#ifndef FEEDD_TESTS_UNIT_MAPPINGS_H
#define FEEDD_TESTS_UNIT_MAPPINGS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/sizes.h"

// Bytes of address space: neighbours that the kernel joins count the same.
static inline uint64_t mapped_bytes(void) {
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1); // NOLINT(cert-err34-c): the kernel's own numbers
    fclose(file);
    return pages * 4096;
}

#endif
