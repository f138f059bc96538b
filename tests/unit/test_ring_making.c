// Making a ring, step by step: when it has pages, that it never has a name, and what is said when there is no
// room.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/error.h"
#include "base/sizes.h"
#include "shm/ring_make.h"
#include "tests/unit/ring_fixture.h"

// Many samples of one byte: as much in the control part as in a batch.
static struct ring_plan small_plan(void) {
    struct error error = {0};
    struct ring_plan plan = {.slot_count = 64, .batch_size = 100000, .field_count = 1, .samples = 1000000};
    plan.fields[0] = (struct ring_field){"token", DTYPE_U8, 0, {0}, 1, 0};
    if (ring_plan(&plan, &error) < 0)
        fail_msg("%s", error.text);
    return plan;
}

static uint64_t allocated(int fd) {
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

static void test_pages_come_step_by_step(void **state) {
    (void)state;
    struct ring_plan plan = small_plan();
    struct error error = {0};
    struct stat status;
    struct ring ring;
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    assert_int_equal(ring_create(&plan, &fd, &read_fd, &error), 0);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_size, plan.total_bytes);
    assert_int_equal(allocated(fd), 0);
    assert_int_equal(ring_allocate_control(&plan, fd, &error), 0);
    assert_in_range(allocated(fd), plan.data_offset, plan.total_bytes - 1);
    assert_int_equal(ring_map(&ring, fd, RING_CONTROL, &error), 0);
    ring_unmap(&ring);
    const uint64_t control = allocated(fd);
    assert_int_equal(ring_allocate(&plan, fd, 1, 2, &error), 0);
    assert_int_equal(allocated(fd), control + 2 * plan.slot_bytes);
    assert_int_equal(ring_allocate(&plan, fd, 0, plan.slot_count, &error), 0);
    assert_true(allocated(fd) >= plan.total_bytes);
}

static void test_before_its_header_is_written_it_is_not_a_ring(void **state) {
    (void)state;
    struct ring_plan plan = small_plan();
    struct error error = {0};
    struct ring ring;
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    assert_int_equal(ring_create(&plan, &fd, &read_fd, &error), 0);
    assert_int_equal(ring_map(&ring, fd, RING_CONTROL, &error), -EPROTO);
    assert_non_null(strstr(error.text, "magic"));
    assert_int_equal(ring_map(&ring, read_fd, RING_READ, &error), -EPROTO);
}

static bool can_link(int fd) {
    char from[64], to[64];
    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    snprintf(to, sizeof to, "/dev/shm/feedd-test-%d", (int)getpid());
    bool linked = linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) == 0 ||
                  linkat(fd, "", AT_FDCWD, to, AT_EMPTY_PATH) == 0;
    if (linked)
        unlink(to);
    return linked;
}

static void test_it_has_no_name_and_gets_none(void **state) {
    (void)state;
    struct ring_plan plan = small_plan();
    struct error error = {0};
    struct stat status;
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    assert_int_equal(ring_create(&plan, &fd, &read_fd, &error), 0);
    assert_false(can_link(fd));
    assert_false(can_link(read_fd));
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_nlink, 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(read_fd, F_GETFD) & FD_CLOEXEC);
}

// ---- No room ----------------------------------------------------------------------------------------------

static void test_no_room(void **state) {
    (void)state;
    struct ring_plan plan = small_plan();
    struct statvfs room;
    struct error error = {0};
    assert_int_equal(ring_find_room(&plan, &error), 0);
    assert_int_equal(statvfs("/dev/shm", &room), 0);
    uint64_t free_bytes = (uint64_t)room.f_bavail * room.f_frsize;
    plan.batch_size = 1024;
    plan.fields[0].sample_bytes = free_bytes / 1024 / 64 + RING_PAGE;
    assert_int_equal(ring_plan(&plan, &error), 0);
    assert_int_equal(ring_find_room(&plan, &error), -ENOSPC);
    uint64_t need = 0, have = 0;
    if (sscanf(error.text, "a ring of %lu MiB does not fit: /dev/shm has %lu MiB free; ask", &need, &have) !=
        2)
        fail_msg("%s", error.text);
    assert_int_equal(need, mib_up(plan.total_bytes));
    assert_true(have <= need);
}

static void limit_files(uint64_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void assert_says_limit(const struct ring_plan *plan, uint64_t limit, const struct error *error) {
    uint64_t need = 0, may = 0;
    if (sscanf(error->text,
               "a ring of %lu bytes is larger than a file of the daemon may be, which is %lu bytes", &need,
               &may) != 2)
        fail_msg("%s", error->text);
    assert_int_equal(need, plan->total_bytes);
    assert_int_equal(may, limit);
    assert_non_null(strstr(error->text, "RLIMIT_FSIZE"));
    assert_non_null(strstr(error->text, "LimitFSIZE="));
}

// At whatever step the limit is met: each of them would end a process that does not ignore the signal.
static void test_a_limit_of_file_sizes_is_named(void **state) {
    (void)state;
    struct ring_plan plan = small_plan();
    struct error error = {0};
    struct rlimit before;
    int fd = -1, read_fd = -1;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(plan.total_bytes - 1);
    assert_int_equal(ring_create(&plan, &fd, &read_fd, &error), -EFBIG);
    assert_says_limit(&plan, plan.total_bytes - 1, &error);
    assert_int_equal(fd, -1);
    limit_files(plan.total_bytes);
    assert_int_equal(ring_create(&plan, &fd, &read_fd, &error), 0);
    assert_int_equal(ring_allocate_control(&plan, fd, &error), 0);
    assert_int_equal(ring_allocate(&plan, fd, 0, plan.slot_count, &error), 0);
    close_fd(&fd);
    close_fd(&read_fd);
    // A memory file does not have a size yet, so the allocation is what hits the limit.
    AUTO_CLOSE int empty = memfd_create("ring", MFD_CLOEXEC);
    limit_files(RING_PAGE);
    assert_int_equal(ring_allocate_control(&plan, empty, &error), -EFBIG);
    assert_says_limit(&plan, RING_PAGE, &error);
    assert_int_equal(ring_allocate(&plan, empty, 0, plan.slot_count, &error), -EFBIG);
    assert_says_limit(&plan, RING_PAGE, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_come_step_by_step),
        cmocka_unit_test(test_before_its_header_is_written_it_is_not_a_ring),
        cmocka_unit_test(test_it_has_no_name_and_gets_none),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_a_limit_of_file_sizes_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
