// The ring of a device pool for tests: that of ring_fixture.h with only the control part, one chunk per batch.
#ifndef FEEDD_TESTS_UNIT_POOL_FIXTURE_H
#define FEEDD_TESTS_UNIT_POOL_FIXTURE_H

#include "base/error.h"
#include "tests/unit/ring_fixture.h"

static inline int pool_write_header(int fd, const struct ring_shape *shape) {
    struct ring_shape whole = *shape;
    struct ring_header header;
    whole.chunk_samples = shape->batch;
    int err = fixture_write_header(fd, &whole);
    if (err)
        return err;
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return -EIO;
    header.on_device = 1;
    header.total_bytes = header.data_offset;
    if (pwrite(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return -EIO;
    return ftruncate(fd, (off_t)header.total_bytes) < 0 ? -errno : 0;
}

static inline void pool_ring(struct ring *ring, const struct ring_shape *shape) {
    struct error error = {0};
    AUTO_CLOSE int fd = memfd_create("ring of a pool", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pool_write_header(fd, shape), 0);
    if (ring_map(ring, fd, RING_CONTROL, &error) < 0 || ring_supervise(ring, &error) < 0)
        fail_msg("%s", error.text);
}

#endif
