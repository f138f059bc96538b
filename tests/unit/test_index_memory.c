// The memory of indices: equal ones are shared, those of which only the hash is equal are not.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "daemon/dataset/index_memory.h"
#include "tests/unit/descriptors.h"

#define HASH  7u
#define BYTES 8192u

static int make(char content) {
    char bytes[BYTES];
    memset(bytes, content, sizeof bytes);
    int fd = memfd_create("index", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
    return fd;
}

static int shared(char content) {
    int fd = make(content);
    index_memory_share(&fd, BYTES, HASH);
    return fd;
}

static ino_t inode(int fd) {
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    return status.st_ino;
}

static void give_back(int *fd) {
    index_memory_release(*fd);
    close_fd(fd);
}

static void test_equal_ones_are_shared(void **state) {
    (void)state;
    const unsigned before = open_descriptors();
    int first = shared('a'), second = shared('a'), third = shared('b');
    assert_true(first != second);
    assert_int_equal(inode(first), inode(second));
    assert_int_not_equal(inode(first), inode(third)); // although the hash is the same
    give_back(&third);
    give_back(&first);
    int fourth = shared('a'); // the second one still has it
    assert_int_equal(inode(fourth), inode(second));
    give_back(&fourth);
    give_back(&second);
    assert_int_equal(open_descriptors(), before);
}

static void test_what_is_gone_is_not_shared(void **state) {
    (void)state;
    int first = shared('a');
    const int copy = fcntl(first, F_DUPFD_CLOEXEC, 0); // so that the inode is not used again
    give_back(&first);
    int second = shared('a');
    assert_int_not_equal(inode(second), inode(copy));
    index_memory_release(copy); // of memory that nobody has shared: nothing happens
    int third = shared('a');
    assert_int_equal(inode(third), inode(second));
    give_back(&second);
    give_back(&third);
    close(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_ones_are_shared),
        cmocka_unit_test(test_what_is_gone_is_not_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
