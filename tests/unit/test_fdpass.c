// Descriptors over real socket pairs: who owns them, how many fit, and which are lost.
#include "base/fdpass.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/scope.h"
#include "tests/unit/descriptors.h"

static int ends[2];

static int set_up(void **state) {
    (void)state;
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
}

static int tear_down(void **state) {
    (void)state;
    close_fd(&ends[0]);
    close_fd(&ends[1]);
    return 0;
}

static void send_many(uint32_t count) {
    int fds[FDPASS_MOST];
    for (uint32_t i = 0; i < count; i++)
        fds[i] = ends[0];
    assert_int_equal(fdpass_send(ends[0], "abc", 3, lend_fds(fds, count), 0), 3);
}

static void bytes_alone(void **state) {
    char bytes[8] = {0};
    bool truncated = true;
    struct received_fds received = receive_into(NULL, 0);
    (void)state;
    assert_int_equal(fdpass_receive(ends[1], bytes, sizeof bytes, &received, &truncated), -EAGAIN);
    assert_int_equal(fdpass_send(ends[0], "abc", 3, lend_no_fds(), MSG_DONTWAIT), 3);
    assert_int_equal(fdpass_receive(ends[1], bytes, sizeof bytes, &received, &truncated), 3);
    assert_string_equal(bytes, "abc");
    assert_false(truncated);
    assert_false(received.lost);
    close_fd(&ends[0]);
    assert_int_equal(fdpass_receive(ends[1], bytes, sizeof bytes, &received, NULL), 0);
    assert_int_equal(fdpass_send(ends[1], "abc", 3, lend_no_fds(), 0), -EPIPE); // and no SIGPIPE
}

static void lent_ones_stay_and_received_ones_are_new(void **state) {
    int fds[2];
    char bytes[8];
    unsigned before = open_descriptors();
    struct received_fds received = receive_into(fds, 2);
    (void)state;
    send_many(2);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(fdpass_receive(ends[1], bytes, sizeof bytes, &received, NULL), 3);
    assert_int_equal(received.count, 2);
    assert_int_equal(open_descriptors(), before + 2);
    assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    received_fds_close(&received);
    assert_int_equal(received.count, 0);
    assert_int_equal(open_descriptors(), before);
}

static void as_many_as_the_kernel_allows(void **state) {
    int fds[FDPASS_MOST + 1] = {0};
    char bytes[8];
    struct received_fds received = receive_into(fds, FDPASS_MOST);
    (void)state;
    send_many(FDPASS_MOST);
    assert_int_equal(fdpass_receive(ends[1], bytes, sizeof bytes, &received, NULL), 3);
    assert_int_equal(received.count, FDPASS_MOST);
    assert_false(received.lost);
    received_fds_close(&received);
    assert_int_equal(fdpass_send(ends[0], "abc", 3, lend_fds(fds, FDPASS_MOST + 1), 0), -EINVAL);
}

// Odd numbers too: the kernel's room is rounded up.
static void those_without_room_are_lost_and_do_not_stay_open(void **state) {
    int fds[8];
    char bytes[8];
    unsigned before = open_descriptors();
    (void)state;
    for (uint32_t room = 0; room < 8; room++) {
        struct received_fds received = receive_into(fds, room);
        send_many(room + 3);
        assert_int_equal(fdpass_receive(ends[1], bytes, sizeof bytes, &received, NULL), 3);
        assert_int_equal(received.count, room);
        assert_true(received.lost);
        received_fds_close(&received);
        assert_int_equal(open_descriptors(), before);
    }
}

static void a_process_that_can_have_no_more(void **state) {
    int fds[8];
    char bytes[8];
    struct rlimit limit, tight;
    (void)state;
    send_many(4);
    int next = dup(ends[0]); // the number that comes next
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    tight = (struct rlimit){.rlim_cur = (rlim_t)next + 1, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    struct received_fds received = receive_into(fds, 8);
    ssize_t got = fdpass_receive(ends[1], bytes, sizeof bytes, &received, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(got, 3);
    assert_int_equal(received.count, 1);
    assert_true(received.lost);
    received_fds_close(&received);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(bytes_alone),
        TEST(lent_ones_stay_and_received_ones_are_new),
        TEST(as_many_as_the_kernel_allows),
        TEST(those_without_room_are_lost_and_do_not_stay_open),
        TEST(a_process_that_can_have_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
