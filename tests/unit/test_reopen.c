// Loaders' own descriptions of the files they were given.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "daemon/loader/read/reopen.h"

#define FIRST 200 // descriptors that nothing else uses

static char path[] = "/tmp/feedd-reopen-XXXXXX";

static int make_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, "samples", 7) != 7)
        return -1;
    return close(fd);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

static void give(int number, int flags) {
    int fd = open(path, flags | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(dup2(fd, number), number); // without close-on-exec, as a child gets it
    close(fd);
}

static ino_t inode(int fd) {
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    return status.st_ino;
}

static void each_gets_a_description_of_its_own(void **state) {
    (void)state;
    give(FIRST, O_RDONLY | O_NONBLOCK);
    give(FIRST + 1, O_RDONLY);
    int shared[] = {dup(FIRST), dup(FIRST + 1)};
    reopen_files(FIRST, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(inode(FIRST + i), inode(shared[i]));
        assert_int_equal(fcntl(FIRST + i, F_GETFL), fcntl(shared[i], F_GETFL));
        assert_int_equal(fcntl(FIRST + i, F_GETFD), FD_CLOEXEC);
        assert_int_equal(lseek(FIRST + i, 3, SEEK_SET), 3);
        assert_int_equal(lseek(shared[i], 0, SEEK_CUR), 0); // the position is the description's
        close(shared[i]);
        close(FIRST + i);
    }
}

static void a_file_without_a_name_is_the_same_file(void **state) {
    (void)state;
    give(FIRST, O_RDONLY);
    char other[] = "/tmp/feedd-reopen-other-XXXXXX";
    int replacement = mkstemp(other);
    assert_true(replacement >= 0);
    assert_int_equal(rename(other, path), 0); // another file has its name now
    ino_t before = inode(FIRST);
    reopen_files(FIRST, 1);
    assert_int_equal(inode(FIRST), before);
    close(replacement);
    close(FIRST);
}

static void what_may_not_be_opened_stays(void **state) {
    (void)state;
    if (geteuid() != 0) {
        print_message("skip: only root can become somebody who may not read the file\n");
        skip();
    }
    give(FIRST, O_RDONLY);
    assert_int_equal(chmod(path, 0600), 0);
    int shared = dup(FIRST);
    assert_int_equal(seteuid(65534), 0);
    reopen_files(FIRST, 1);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(lseek(FIRST, 2, SEEK_SET), 2);
    assert_int_equal(lseek(shared, 0, SEEK_CUR), 2); // still one description
    close(shared);
    close(FIRST);
}

static void descriptors_that_are_not_open_do_no_harm(void **state) {
    (void)state;
    reopen_files(FIRST, 3);
    assert_int_equal(fcntl(FIRST, F_GETFD), -1);
    give(FIRST, O_RDONLY);
    reopen_files(FIRST, 5000); // beyond where it is worth it
    assert_int_equal(fcntl(FIRST, F_GETFD), 0);
    close(FIRST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gets_a_description_of_its_own),
        cmocka_unit_test(a_file_without_a_name_is_the_same_file),
        cmocka_unit_test(what_may_not_be_opened_stays),
        cmocka_unit_test(descriptors_that_are_not_open_do_no_harm),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
