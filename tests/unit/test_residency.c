// Residency: the probe tells a cached file from an evicted one, and the policy follows it without flapping.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/scope.h"
#include "daemon/loader/read/residency.h"

#define FIRST_FD 210
#define FILES    2
#define RECORD   1000u
#define RECORDS  8000u

static struct dataset_layout *make_dataset(void) {
    struct dataset_layout *layout = calloc(1, sizeof *layout + FILES * sizeof layout->files[0]);
    assert_non_null(layout);
    layout->samples = FILES * RECORDS;
    layout->stream_count = 1;
    layout->file_count = FILES;
    layout->streams[0] = (struct dataset_stream){.record_bytes = RECORD, .file_count = FILES};
    for (uint32_t i = 0; i < FILES; i++) {
        char path[] = "/var/tmp/test_residency.XXXXXX";
        AUTO_CLOSE int fd = mkstemp(path);
        unlink(path);
        assert_true(fd >= 0);
        layout->files[i] = (struct dataset_file){.first_sample = i * RECORDS,
                                                 .samples = RECORDS,
                                                 .data_offset = 128,
                                                 .bytes = 128 + RECORD * RECORDS};
        static const uint8_t page[RING_PAGE] = {1};
        for (uint64_t at = 0; at < layout->files[i].bytes; at += sizeof page)
            assert_int_equal(write(fd, page, sizeof page), sizeof page);
        assert_int_equal(fsync(fd), 0);
        assert_int_equal(dup2(fd, FIRST_FD + (int)i), FIRST_FD + (int)i);
    }
    return layout;
}

// With `files` of them evicted. Asking may start a read of what is missing, so on a fast disk another attempt may be
// needed.
static bool sees(const struct dataset_layout *layout, struct residency_probe *probe, int files, double least,
                 double most) {
    for (int attempt = 0; attempt < 10; attempt++) {
        for (int i = 0; i < files; i++)
            assert_int_equal(posix_fadvise(FIRST_FD + i, 0, 0, POSIX_FADV_DONTNEED), 0);
        double share = residency_sample(layout, FIRST_FD, probe);
        if (share > least && share < most)
            return true;
    }
    return false;
}

static void probe_with(enum residency_method method) {
    AUTO_FREE struct dataset_layout *layout = make_dataset();
    struct residency_probe probe = {.random = 5, .method = method};
    assert_true(residency_sample(layout, FIRST_FD, &probe) == 1.0);
    if (probe.method != method) {
        print_message("skip: this kernel does not let one ask by method %d\n", (int)method);
        skip();
    }
    assert_true(sees(layout, &probe, 1, 0.25, 0.75));
    assert_true(sees(layout, &probe, FILES, -1, 0.1));
    assert_int_equal(probe.method, method);
    for (int i = 0; i < FILES; i++)
        close(FIRST_FD + i);
}

static void cachestat_sees_the_cache(void **state) {
    (void)state;
    probe_with(RESIDENCY_CACHESTAT);
}

static void nowait_sees_the_cache(void **state) {
    (void)state;
    probe_with(RESIDENCY_NOWAIT);
}

static void nothing_can_be_asked(void **state) {
    (void)state;
    AUTO_FREE struct dataset_layout *layout = make_dataset();
    struct residency_probe probe = {.random = 5};
    for (int i = 0; i < FILES; i++)
        close(FIRST_FD + i);
    assert_true(residency_sample(layout, FIRST_FD, &probe) == 0);
    assert_int_equal(probe.method, RESIDENCY_NONE);
    assert_true(residency_sample(layout, FIRST_FD, &probe) == 0);
}

// ---- The policy ---------------------------------------------------------------------------------------------

#define SECOND UINT64_C(1000000000)

static void policy_has_hysteresis(void **state) {
    (void)state;
    struct residency_policy policy;
    residency_policy_init(&policy, 1000, 0);
    assert_int_equal(residency_policy_update(&policy, 0.97, 1000, 1 * SECOND), IO_URING);
    assert_int_equal(residency_policy_update(&policy, 0.98, 1000, 2 * SECOND), IO_MAPPED);
    assert_int_equal(residency_policy_update(&policy, 0.91, 1000, 3 * SECOND), IO_MAPPED);
    assert_int_equal(residency_policy_update(&policy, 0.89, 1000, 4 * SECOND), IO_URING);
    assert_int_equal(residency_policy_update(&policy, 0.97, 1000, 5 * SECOND), IO_URING);
    assert_int_equal(residency_policy_update(&policy, 1.00, 1000, 6 * SECOND), IO_MAPPED);
}

static void policy_flees_from_faults(void **state) {
    (void)state;
    struct residency_policy policy;
    residency_policy_init(&policy, 1000, 0);
    assert_int_equal(residency_policy_update(&policy, 1, 1000, 0), IO_MAPPED);
    assert_int_equal(residency_policy_update(&policy, 1, 1050, 1 * SECOND), IO_MAPPED);
    assert_int_equal(residency_policy_update(&policy, 1, 1101, 2 * SECOND), IO_URING);
    assert_int_equal(residency_policy_update(&policy, 1, 1101, 11 * SECOND), IO_URING); // barred for 10 s
    assert_int_equal(residency_policy_update(&policy, 1, 1101, 12 * SECOND), IO_MAPPED);
    assert_int_equal(residency_policy_update(&policy, 1, 1301, 15 * SECOND), IO_URING);
    assert_int_equal(residency_policy_update(&policy, 1, 1301, 34 * SECOND), IO_URING); // for 20 s
    assert_int_equal(residency_policy_update(&policy, 1, 1301, 35 * SECOND), IO_MAPPED);
    // The same faults over a longer time are not a burst; nor are those from the time with io_uring.
    assert_int_equal(residency_policy_update(&policy, 1, 1401, 38 * SECOND), IO_MAPPED);
    assert_int_equal(residency_policy_update(&policy, 0, 1401, 39 * SECOND), IO_URING);
    assert_int_equal(residency_policy_update(&policy, 0, 9999, 40 * SECOND), IO_URING);
    assert_int_equal(residency_policy_update(&policy, 1, 9999, 41 * SECOND), IO_MAPPED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cachestat_sees_the_cache), cmocka_unit_test(nowait_sees_the_cache),
        cmocka_unit_test(nothing_can_be_asked),     cmocka_unit_test(policy_has_hysteresis),
        cmocka_unit_test(policy_flees_from_faults),
    };
    return cmocka_run_group_tests_name("residency", tests, NULL, NULL);
}
