// Real files for a made-up dataset, and readers over them.
#ifndef FEEDD_TESTS_UNIT_READER_FIXTURE_H
#define FEEDD_TESTS_UNIT_READER_FIXTURE_H

#include "base/error.h"
#include "base/time.h"
#include "daemon/loader/read/reader_mapped.h"
#include "daemon/loader/read/reader_pread.h"
#include "daemon/loader/read/reader_uring.h"
#include "tests/unit/dataset_fixture.h"

#include <fcntl.h>

#define FIRST_FD 200

#define ONE_FIELD(bytes)                                                                                     \
    .streams = 1, .stream = {{.record_bytes = (bytes), .extents = 1, .extent = {{0, (bytes)}}}}

enum {
    URING,
    MAPPED,
    PREAD,
    READERS
};

static inline void write_files(const struct fixture *fixture) {
    for (uint32_t i = 0; i < fixture->layout->file_count; i++) {
        char path[] = "/var/tmp/test_reader.XXXXXX"; // seldom a tmpfs, unlike /tmp
        AUTO_CLOSE int fd = mkstemp(path);
        assert_true(fd >= 0);
        uint64_t bytes = fixture->layout->files[i].bytes;
        assert_int_equal(write(fd, fixture->contents[i], bytes), bytes);
        int direct = fixture->layout->files[i].direct_memory ? O_DIRECT : 0;
        AUTO_CLOSE int again = open(path, O_RDWR | direct);
        unlink(path);
        if (again < 0 && errno == EINVAL)
            skip(); // no O_DIRECT here
        assert_true(again >= 0 && fsync(again) == 0);
        assert_int_equal(dup2(again, FIRST_FD + (int)i), FIRST_FD + (int)i);
    }
}

static inline void close_files(const struct fixture *fixture) {
    for (uint32_t i = 0; i < fixture->layout->file_count; i++)
        close(FIRST_FD + (int)i);
}

static inline struct reader *open_reader(int which, const struct reader_options *options) {
    struct reader *reader;
    struct error error = {0};
    enum reader_reason reason;
    static reader_open *const open[] = {
        [URING] = reader_open_uring, [MAPPED] = reader_open_mapped, [PREAD] = reader_open_pread};
    int err = open[which](options, &reader, &reason, &error);
    if (which == URING && (err == -EPERM || err == -ENOSYS))
        skip();
    if (err < 0)
        fail_msg("%s", error.text);
    return reader;
}

// Reads the whole plan. Returns how many requests failed; notes the code and the samples they serve.
static inline uint32_t read_plan(struct reader *reader, struct chunk_plan *plan, int *code, bool *skipped) {
    uint32_t failed = 0, next = 0, complete = 0;
    uint64_t deadline = monotonic_ns() + UINT64_C(20000000000);
    while (complete < plan->request_count) {
        assert_true(monotonic_ns() < deadline);
        while (next < plan->request_count && reader->in_flight < reader->depth)
            assert_int_equal(reader->submit(reader, &plan->requests[next++]), 0);
        if (reader->in_flight == reader->depth)
            assert_int_equal(reader->submit(reader, &plan->requests[0]), -EBUSY);
        uint32_t before = reader->in_flight, reported = 0;
        for (struct read_request *request = reader->reap(reader, 1000); request; request = request->next) {
            reported++;
            failed += request->result != 0;
            for (uint32_t i = 0; request->result != 0 && i < request->sample_count; i++) {
                *code = request->result;
                skipped[chunk_request_sample(plan, request, i)] = true;
            }
        }
        assert_int_equal(reader->in_flight, before - reported);
        complete += reported;
    }
    assert_int_equal(reader->in_flight, 0);
    return failed;
}

// As if batches had been put into slots `first` to `end` - 1.
static inline void use_slots(struct fixture *fixture, uint32_t first, uint32_t end) {
    for (uint32_t slot = first; slot < end; slot++)
        ring_slot(&fixture->ring, slot)->fill = 1;
}

// Until there is nothing left to do, at any time.
static inline void settle_all(struct reader *reader) {
    static uint64_t now = 1;
    for (uint32_t idle = 0; idle < 100; now += UINT64_C(1000000))
        idle = reader->settle(reader, now, true) ? 0 : idle + 1;
}

struct setting {
    struct fixture fixture;
    struct chunk_plan plan;
    struct reader_options options;
};

static inline void set_up(struct setting *setting, const struct fixture_shape *shape) {
    fixture_make(&setting->fixture, shape);
    write_files(&setting->fixture);
    assert_int_equal(
        chunk_plan_init(&setting->plan, setting->fixture.layout, &setting->fixture.ring, NULL, NULL), 0);
    setting->options = (struct reader_options){.layout = setting->fixture.layout,
                                               .ring = &setting->fixture.ring,
                                               .first_fd = FIRST_FD,
                                               .depth = 32,
                                               .life_fd = -1};
}

static inline void tear_down(struct setting *setting) {
    chunk_plan_free(&setting->plan);
    close_files(&setting->fixture);
    fixture_free(&setting->fixture);
}

#endif
