// Closing what clients sent without waiting for it: sockets whose close lingers, in hand and in a receive queue.
#include "daemon/supervisor/closer.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/fdpass.h"
#include "base/scope.h"
#include "base/time.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/lingering.h"

#define AT_ONCE   (500 * NS_PER_MS)
#define WAIT_MOST (20 * NS_PER_S)

enum {
    HOSTILE = 1001,
    INNOCENT = 1002
};

static struct closer *closer;
static int quiet = -1; // the far end of the lingering socket

static int set_up(void **state) {
    (void)state;
    closer = closer_open();
    return closer ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    close_fd(&quiet);
    if (closer)
        closer_leave(closer);
    closer = NULL;
    return 0;
}

// A session's socket: `far` is the client's end.
static int session_socket(int *far) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *far = ends[1];
    return ends[0];
}

static void expect_busy_for_the_linger(uint64_t since) {
    assert_true(monotonic_ns() - since < AT_ONCE);
    assert_int_not_equal(closer_count(closer, HOSTILE), 0);
    assert_int_equal(closer_count(closer, INNOCENT), 0);
    while (closer_count(closer, HOSTILE) && monotonic_ns() - since < WAIT_MOST)
        usleep(10000);
    assert_in_range(monotonic_ns() - since, LINGER_S * NS_PER_S / 2, WAIT_MOST);
}

static void a_received_descriptor_that_lingers(void **state) {
    unsigned before = open_descriptors();
    (void)state;
    int fds[] = {lingering_socket(&quiet), open("/dev/null", O_RDONLY | O_CLOEXEC)};
    uint32_t count = 2;
    uint64_t since = monotonic_ns();
    closer_take(closer, HOSTILE, fds, &count);
    assert_int_equal(count, 0);
    expect_busy_for_the_linger(since);
    close_fd(&quiet);
    assert_int_equal(open_descriptors(), before);
}

static void a_session_with_one_in_its_queue(void **state) {
    int far;
    unsigned before = open_descriptors();
    int socket = session_socket(&far);
    (void)state;
    // After bytes without descriptors, which are read away.
    int poisoned = lingering_socket(&quiet);
    assert_int_equal(send(far, "hello", 5, 0), 5);
    assert_int_equal(fdpass_send(far, "x", 1, lend_fds(&poisoned, 1), 0), 1);
    close(poisoned); // the last reference is in the queue now
    uint64_t since = monotonic_ns();
    closer_take_socket(closer, HOSTILE, &socket);
    assert_int_equal(socket, -1);
    assert_int_equal(send(far, "x", 1, MSG_NOSIGNAL), -1); // the connection has ended
    expect_busy_for_the_linger(since);
    close(far);
    close_fd(&quiet);
    assert_int_equal(open_descriptors(), before);
}

// Everybody else's sessions close here and now, whatever they left unread.
static void a_session_without_any_never_waits_for_others(void **state) {
    static const char bytes[100000];
    int far, fd = lingering_socket(&quiet);
    uint32_t count = 1;
    uint64_t since = monotonic_ns();
    (void)state;
    unsigned at_first = open_descriptors();
    closer_take(closer, HOSTILE, &fd, &count);
    while (open_descriptors() >= at_first) // until the thread closes it, which takes long
        assert_true(monotonic_ns() < since + LINGER_S * NS_PER_S);
    for (int unread = 0; unread < 2; unread++) {
        int socket = session_socket(&far);
        unsigned before = open_descriptors();
        if (unread)
            assert_true(send(far, bytes, sizeof bytes, MSG_DONTWAIT) > 0);
        closer_take_socket(closer, INNOCENT, &socket);
        assert_int_equal(socket, -1);
        assert_int_equal(open_descriptors(), before - 1);
        close(far);
    }
    expect_busy_for_the_linger(since);
}

static void a_session_that_has_no_socket(void **state) {
    int none = -1;
    (void)state;
    closer_take_socket(closer, INNOCENT, &none);
    assert_int_equal(none, -1);
    assert_int_equal(closer_count(closer, INNOCENT), 0);
}

static void what_is_sent_last_still_arrives(void **state) {
    int far;
    char bytes[16] = {0};
    int socket = session_socket(&far);
    (void)state;
    assert_int_equal(send(far, "unread", 6, 0), 6);
    assert_int_equal(send(socket, "goodbye", 7, 0), 7);
    closer_take_socket(closer, INNOCENT, &socket);
    assert_int_equal(recv(far, bytes, sizeof bytes, 0), 7);
    assert_string_equal(bytes, "goodbye");
    assert_int_equal(recv(far, bytes, sizeof bytes, 0), 0); // and no reset
    close(far);
}

static void leaving_does_not_wait(void **state) {
    int fd = lingering_socket(&quiet);
    uint32_t count = 1;
    uint64_t since = monotonic_ns();
    (void)state;
    closer_take(closer, HOSTILE, &fd, &count);
    closer_leave(closer);
    closer = NULL;
    assert_true(monotonic_ns() - since < AT_ONCE);
}

static void it_says_when_it_is_full(void **state) {
    int fds[FDPASS_MOST];
    uint32_t taken = 0;
    (void)state;
    fds[0] = lingering_socket(&quiet);
    uint32_t count = 1;
    closer_take(closer, HOSTILE, fds, &count);
    while (taken + FDPASS_MOST < CLOSER_MOST) {
        assert_false(closer_is_full(closer));
        // The numbers of descriptors that do not exist: closing them fails, which is what is wanted here.
        for (uint32_t i = 0; i < FDPASS_MOST; i++)
            fds[i] = (1 << 30) + (int)i;
        count = FDPASS_MOST;
        closer_take(closer, HOSTILE, fds, &count);
        taken += FDPASS_MOST;
    }
    count = FDPASS_MOST;
    closer_take(closer, HOSTILE, fds, &count);
    assert_true(closer_is_full(closer));
}

static void memory_counts_until_its_last_descriptor_is_closed(void **state) {
    int lingering = lingering_socket(&quiet), spare = memfd_create("ring", MFD_CLOEXEC);
    int fds[] = {spare, dup(spare)};
    uint32_t one = 1, two = 2;
    uint64_t since = monotonic_ns();
    (void)state;
    assert_int_equal(closer_bytes(closer, CLOSER_ANYBODY), 0);
    closer_take(closer, HOSTILE, &lingering, &one); // what follows has to wait for it
    closer_take_memory(closer, 7, fds, &two, 1000);
    assert_int_equal(two, 0);
    assert_int_equal(closer_bytes(closer, CLOSER_ANYBODY), 1000);
    assert_int_equal(closer_bytes(closer, 7), 1000);
    assert_int_equal(closer_bytes(closer, HOSTILE), 0);
    while (closer_bytes(closer, CLOSER_ANYBODY) && monotonic_ns() - since < WAIT_MOST)
        usleep(10000);
    assert_int_equal(closer_bytes(closer, CLOSER_ANYBODY), 0);
    assert_int_equal(fcntl(spare, F_GETFD), -1);
    assert_int_equal(closer_bytes(NULL, CLOSER_ANYBODY), 0);
}

static void memory_is_given_back_although_others_keep_it(void **state) {
    int fds[] = {memfd_create("ring", MFD_CLOEXEC)}, kept = dup(fds[0]);
    uint32_t one = 1;
    uint64_t since = monotonic_ns();
    struct stat status;
    (void)state;
    assert_int_equal(posix_fallocate(kept, 0, 1 << 20), 0);
    uint8_t *map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, kept, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    map[5000] = 1;
    closer_take_memory(closer, 7, fds, &one, 1 << 20);
    while (closer_bytes(closer, 7) && monotonic_ns() - since < WAIT_MOST)
        usleep(10000);
    assert_int_equal(fstat(kept, &status), 0);
    assert_int_equal(status.st_blocks, 0);
    assert_int_equal(status.st_size, 1 << 20);
    assert_int_equal(map[5000], 0); // and no signal
    munmap(map, 1 << 20);
    close(kept);
}

// A ring with ragged fields is larger than what is allocated of it, and charged.
static void memory_of_sparse_objects_is_given_back_to_their_ends(void **state) {
    const uint64_t most = 64ull << 20, part = 1 << 20;
    int fds[] = {memfd_create("ring", MFD_CLOEXEC)}, kept = dup(fds[0]);
    uint32_t one = 1;
    uint64_t since = monotonic_ns();
    struct stat status;
    (void)state;
    assert_int_equal(ftruncate(kept, (off_t)most), 0);
    assert_int_equal(posix_fallocate(kept, 0, (off_t)part), 0);
    assert_int_equal(posix_fallocate(kept, (off_t)(most - part), (off_t)part), 0);
    closer_take_memory(closer, 7, fds, &one, 2 * part);
    assert_int_equal(closer_bytes(closer, 7), 2 * part);
    while (closer_bytes(closer, 7) && monotonic_ns() - since < WAIT_MOST)
        usleep(10000);
    assert_int_equal(fstat(kept, &status), 0);
    assert_int_equal(status.st_blocks, 0);
    assert_int_equal(status.st_size, most);
    close(kept);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_received_descriptor_that_lingers),
        TEST(a_session_with_one_in_its_queue),
        TEST(a_session_without_any_never_waits_for_others),
        TEST(a_session_that_has_no_socket),
        TEST(memory_counts_until_its_last_descriptor_is_closed),
        TEST(memory_is_given_back_although_others_keep_it),
        TEST(memory_of_sparse_objects_is_given_back_to_their_ends),
        TEST(what_is_sent_last_still_arrives),
        TEST(leaving_does_not_wait),
        TEST(it_says_when_it_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
