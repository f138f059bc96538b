// Memory of a ring that is prepared before it is known which ring it becomes, and rings that it can become.
#ifndef FEEDD_TESTS_UNIT_PREPARED_FIXTURE_H
#define FEEDD_TESTS_UNIT_PREPARED_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "shm/ring_make.h"

#define BYTES (2 * MIB) // that are prepared

static inline struct ring_plan plan_of(uint32_t slots, uint64_t slot_bytes) {
    struct error error = {0};
    struct ring_plan plan = {.slot_count = slots, .batch_size = 1, .field_count = 1, .samples = 100};
    plan.fields[0] = (struct ring_field){"x", DTYPE_U8, 1, {slot_bytes}, slot_bytes, 0};
    if (ring_plan(&plan, &error) < 0)
        fail_msg("%s", error.text);
    return plan;
}

static inline struct stat look_at(int fd) {
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    return status;
}

#endif
