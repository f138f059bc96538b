// Making rings on machines of every kind: with huge pages, with an old kernel, with little room. The functions that
// tell of the machine are replaced here.
#include <fcntl.h>
#include <mntent.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include "base/error.h"
#include "base/sizes.h"
#include "shm/memory_limit.h"
#include "shm/ring_make.h"
#include "shm/ring_room.h"
#include "tests/unit/mappings.h"
#include "tests/unit/ring_fixture.h"

// ---- The machine -------------------------------------------------------------------------------------------

static struct machine {
    const char *mounts;        // NULL: cannot be read
    bool allocates;            // posix_fallocate does its work
    int refuses;               // what memfd_create says to the newest flag
    uint64_t free_bytes;       // in /dev/shm
    struct memory_limit limit; // of the control group
    uint32_t populated;        // calls that fill pages
} machine;

static int begin(void **state) {
    (void)state;
    machine = (struct machine){.mounts = "",
                               .allocates = true,
                               .free_bytes = 1ull << 40,
                               .limit = {.free_bytes = UINT64_MAX, .limit_bytes = UINT64_MAX}};
    return 0;
}

FILE *setmntent(const char *path, const char *mode) {
    (void)path;
    return machine.mounts
               ? fmemopen((void *)machine.mounts, strlen(machine.mounts) + 1, mode[0] == 'r' ? "r" : "w")
               : NULL;
}

int posix_fallocate(int fd, off_t offset, off_t bytes) {
    if (!machine.allocates)
        return 0;
    return fallocate(fd, 0, offset, bytes) < 0 ? errno : 0;
}

int memfd_create(const char *name, unsigned flags) {
    if (machine.refuses && (flags & 8)) { // MFD_NOEXEC_SEAL
        errno = machine.refuses;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags & ~8u);
}

int statvfs(const char *path, struct statvfs *room) {
    assert_string_equal(path, "/dev/shm");
    *room = (struct statvfs){.f_frsize = 4096, .f_bavail = machine.free_bytes / 4096, .f_blocks = 1ull << 40};
    return 0;
}

struct memory_limit memory_limit_read(void) {
    return machine.limit;
}

int madvise(void *memory, size_t bytes, int advice) {
    machine.populated += advice == MADV_POPULATE_WRITE;
    return (int)syscall(SYS_madvise, memory, bytes, advice);
}

// ---- Rings -------------------------------------------------------------------------------------------------

static struct ring_plan plan_of(uint64_t slot_bytes, bool on_device) {
    struct error error = {0};
    struct ring_plan plan = {
        .slot_count = 3, .batch_size = 1, .field_count = 1, .samples = 100, .on_device = on_device};
    plan.fields[0] = (struct ring_field){"x", DTYPE_U8, 1, {slot_bytes}, slot_bytes, 0};
    if (ring_plan(&plan, &error) < 0)
        fail_msg("%s", error.text);
    return plan;
}

static int make(const struct ring_plan *plan, struct error *error) {
    int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    int err = ring_find_room(plan, error);
    if (!err)
        err = ring_create(plan, &fd, &read_fd, error);
    return err ? err : fd;
}

static uint64_t allocated(int fd) {
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

// Allocates all of a ring on a machine with these mounts, which does not allocate itself; returns how much there is.
static uint64_t allocate_with(const char *mounts) {
    struct error error = {0};
    struct ring_plan plan = plan_of(1500000, false);
    machine.mounts = mounts;
    machine.allocates = false;
    machine.populated = 0;
    AUTO_CLOSE int fd = make(&plan, &error);
    assert_true(fd >= 0);
    uint64_t before = mapped_bytes();
    assert_int_equal(ring_allocate(&plan, fd, 0, plan.slot_count, &error), 0);
    assert_int_equal(mapped_bytes(), before);
    assert_true(allocated(fd) == 0 || allocated(fd) >= plan.total_bytes);
    return allocated(fd);
}

#define SHM "tmpfs /dev/shm tmpfs rw"

static void test_huge_pages_are_filled_if_the_mount_offers_them(void **state) {
    (void)state;
    assert_true(allocate_with("proc /proc proc rw 0 0\n" SHM ",huge=always 0 0\n") > 0);
    assert_int_equal(machine.populated, 3); // 4.5 MiB, in steps of 2 MiB
    assert_true(allocate_with(SHM ",huge=within_size 0 0\n") > 0);
    assert_int_equal(allocate_with(SHM ",huge=never 0 0\n"), 0);
    assert_int_equal(allocate_with(SHM " 0 0\n"), 0);
    assert_int_equal(allocate_with("tmpfs /elsewhere tmpfs rw,huge=always 0 0\n"), 0);
    assert_int_equal(allocate_with(NULL), 0);
    assert_int_equal(machine.populated, 0);
}

static void test_the_mount_on_top_decides(void **state) {
    (void)state;
    assert_int_equal(allocate_with(SHM ",huge=always 0 0\n" SHM " 0 0\n"), 0);
    assert_true(allocate_with(SHM " 0 0\n" SHM ",huge=always 0 0\n") > 0);
}

static void test_a_kernel_without_the_newest_flag(void **state) {
    (void)state;
    struct error error = {0};
    struct ring_plan plan = plan_of(4096, true);
    machine.refuses = EINVAL;
    AUTO_CLOSE int fd = make(&plan, &error);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GET_SEALS), F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    machine.refuses = EMFILE;
    assert_int_equal(make(&plan, &error), -EMFILE);
    assert_non_null(strstr(error.text, "ring of a pool"));
    assert_true(fcntl(0, F_GETFD) >= 0);
}

static void test_a_ring_that_cannot_be_mapped(void **state) {
    (void)state;
    struct error error = {0};
    struct ring_plan plan = plan_of(4096, false);
    int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    assert_int_equal(ring_create(&plan, &fd, &read_fd, &error), 0);
    close(fd);
    machine.allocates = false;
    assert_int_equal(ring_allocate_control(&plan, read_fd, &error), -EACCES);
    assert_non_null(strstr(error.text, "cannot map a new ring"));
}

// ---- Room --------------------------------------------------------------------------------------------------

static void test_what_just_fits(void **state) {
    (void)state;
    struct error error = {0};
    struct ring_plan plan = plan_of(100000, false);
    machine.free_bytes = plan.total_bytes;
    AUTO_CLOSE int fd = make(&plan, &error);
    assert_true(fd >= 0);
    machine.free_bytes -= 4096;
    assert_int_equal(make(&plan, &error), -ENOSPC);
    assert_true(fcntl(0, F_GETFD) >= 0); // a refusal closes nothing of the process's
    assert_non_null(strstr(error.text, "/dev/shm has 0 MiB free"));
}

static void test_a_group_keeps_something_for_loaders(void **state) {
    (void)state;
    struct error error = {0};
    assert_int_equal(ring_free_bytes(), 1ull << 40);
    machine.limit =
        (struct memory_limit){.free_bytes = 132 * MIB, .limit_bytes = 256 * MIB, .group = "/sys/a/group"};
    assert_int_equal(ring_free_bytes(), 100 * MIB);
    machine.free_bytes = 99 * MIB;
    assert_int_equal(ring_free_bytes(), 99 * MIB);
    machine.free_bytes = 101 * MIB;
    assert_int_equal(ring_no_room(200 * MIB, -ENOSPC, &error), -ENOSPC);
    assert_non_null(strstr(error.text,
                           "a ring of 200 MiB does not fit: the memory limit of /sys/a/group is 256 MiB, "
                           "of which a ring may have 100 MiB now"));
    machine.free_bytes = 100 * MIB; // both are short: the folder is what counts
    assert_int_equal(ring_no_room(200 * MIB, -ENOSPC, &error), -ENOSPC);
    assert_non_null(strstr(error.text, "a ring of 200 MiB does not fit: /dev/shm has 100 MiB free"));
    machine.limit.free_bytes = 20 * MIB; // less than what is kept
    assert_int_equal(ring_free_bytes(), 0);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup(test, begin)
    const struct CMUnitTest tests[] = {
        CASE(test_huge_pages_are_filled_if_the_mount_offers_them),
        CASE(test_the_mount_on_top_decides),
        CASE(test_a_kernel_without_the_newest_flag),
        CASE(test_a_ring_that_cannot_be_mapped),
        CASE(test_what_just_fits),
        CASE(test_a_group_keeps_something_for_loaders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
