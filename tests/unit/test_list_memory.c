// The memory of a list can be sealed although the process has forked while it was being written.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/dataset/list_memory.h"

#define BYTES 4096u

static void end_child(pid_t pid) {
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void assert_sealed(int fd) {
    uint64_t word = 1;
    assert_true(fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE);
    assert_int_equal(list_memory_write(fd, &word, sizeof word, 0), -EPERM);
}

// As one that has been forked and has not yet become a loader.
static void test_a_child_does_not_have_it_mapped(void **state) {
    (void)state;
    struct dataset_list *list = NULL;
    int fd = list_memory_create();
    assert_true(fd >= 0);
    assert_int_equal(list_memory_map(fd, BYTES, NULL, &list), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    list->words[0] = 7;
    list_memory_unmap(&list, BYTES);
    uint64_t begin = monotonic_ns();
    assert_int_equal(list_memory_seal(fd), 0);
    assert_true(monotonic_ns() - begin < 2 * NS_PER_S);
    assert_sealed(fd);
    end_child(child);
    close(fd);
}

static void test_sealing_waits_for_one_that_has(void **state) {
    (void)state;
    const struct timespec while_mapped = timespec_of_ns(100 * NS_PER_MS);
    int fd = list_memory_create();
    assert_int_equal(list_memory_write(fd, (uint8_t[8]){0}, 8, 0), 0);
    void *map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        nanosleep(&while_mapped, NULL);
        _exit(0);
    }
    munmap(map, BYTES);
    assert_int_equal(list_memory_seal(fd), 0);
    assert_sealed(fd);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_does_not_have_it_mapped),
        cmocka_unit_test(test_sealing_waits_for_one_that_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
