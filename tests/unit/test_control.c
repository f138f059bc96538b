// Structures and descriptors between supervisor and transfer process, over a real pair of sockets.
#include "daemon/control.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/fdpass.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "tests/unit/descriptors.h"

static int ends[2];

static int set_up(void **state) {
    (void)state;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int tear_down(void **state) {
    (void)state;
    close_fd(&ends[0]);
    close_fd(&ends[1]);
    return 0;
}

static int receive(struct transfer_request *request, int fds[CONTROL_MAX_DESCRIPTORS], uint32_t *count) {
    struct received_fds received = receive_into(fds, CONTROL_MAX_DESCRIPTORS);
    int got = control_receive(ends[1], request, sizeof *request, &received);
    *count = received.count;
    return got;
}

static bool same_file(int one, int other) {
    struct stat first, second;
    assert_int_equal(fstat(one, &first), 0);
    assert_int_equal(fstat(other, &second), 0);
    return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

static void structures_come_whole_and_in_order(void **state) {
    (void)state;
    struct transfer_request got = {0};
    int fds[CONTROL_MAX_DESCRIPTORS];
    uint32_t count = 99;
    assert_int_equal(receive(&got, fds, &count), 0);
    assert_int_equal(count, 0);
    for (uint32_t i = 0; i < 10; i++) {
        struct transfer_request request = {.kind = TRANSFER_CLOSE_POOL, .pool = i, .memory_bytes = ~0ull - i};
        assert_int_equal(control_send(ends[0], &request, sizeof request, NULL, 0), 0);
    }
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(receive(&got, fds, &count), 1);
        assert_int_equal(count, 0);
        assert_int_equal(got.pool, i);
        assert_int_equal(got.memory_bytes, ~0ull - i);
    }
    assert_int_equal(receive(&got, fds, &count), 0);
}

static void descriptors_come_with_their_structure(void **state) {
    (void)state;
    struct transfer_request request = {.kind = TRANSFER_OPEN_POOL}, got;
    int sent[CONTROL_MAX_DESCRIPTORS], fds[CONTROL_MAX_DESCRIPTORS];
    uint32_t count;
    for (uint32_t i = 0; i < CONTROL_MAX_DESCRIPTORS; i++)
        assert_true((sent[i] = memfd_create("test", MFD_CLOEXEC)) >= 0);
    for (uint32_t most = 1; most <= CONTROL_MAX_DESCRIPTORS; most++)
        assert_int_equal(control_send(ends[0], &request, sizeof request, sent, most), 0);
    for (uint32_t most = 1; most <= CONTROL_MAX_DESCRIPTORS; most++) {
        assert_int_equal(receive(&got, fds, &count), 1);
        assert_int_equal(count, most);
        while (count--) {
            assert_true(same_file(fds[count], sent[count]));
            assert_true(fcntl(fds[count], F_GETFD) & FD_CLOEXEC);
            close(fds[count]);
        }
    }
    for (uint32_t i = 0; i < CONTROL_MAX_DESCRIPTORS; i++)
        close(sent[i]);
}

static void more_descriptors_than_agreed_are_not_sent(void **state) {
    (void)state;
    struct transfer_request request = {0};
    int sent[CONTROL_MAX_DESCRIPTORS + 1] = {0};
    assert_int_equal(control_send(ends[0], &request, sizeof request, sent, CONTROL_MAX_DESCRIPTORS + 1),
                     -EINVAL);
}

// Whatever it was that came, its descriptors are the receiver's.
static void what_is_not_ours_is_refused(void **state) {
    (void)state;
    static const size_t sizes[] = {1, sizeof(struct transfer_request) - 1,
                                   sizeof(struct transfer_request) + 1, 4096};
    static const uint8_t bytes[4096];
    struct transfer_request got;
    int fds[CONTROL_MAX_DESCRIPTORS];
    uint32_t count;
    unsigned before = open_descriptors();
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        int two[] = {null, null};
        assert_int_equal(control_send(ends[0], bytes, sizes[i], two, 2), 0);
        close(null);
        assert_int_equal(receive(&got, fds, &count), -EPROTO);
        assert_int_equal(count, 2);
        assert_int_equal(open_descriptors(), before + 2);
        close(fds[0]);
        close(fds[1]);
    }
}

static void too_many_descriptors_are_refused(void **state) {
    (void)state;
    struct transfer_request request = {0}, got;
    int fds[CONTROL_MAX_DESCRIPTORS], nine[9] = {0};
    uint32_t count;
    unsigned before = open_descriptors();
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 9; i++)
        nine[i] = null;
    assert_int_equal(fdpass_send(ends[0], &request, sizeof request, lend_fds(nine, 9), 0), sizeof request);
    close(null);
    assert_int_equal(receive(&got, fds, &count), -EPROTO);
    assert_int_equal(count, CONTROL_MAX_DESCRIPTORS);
    while (count)
        close(fds[--count]);
    assert_int_equal(open_descriptors(), before);
}

static void the_other_side_goes(void **state) {
    (void)state;
    struct transfer_request request = {.pool = 7}, got;
    int fds[CONTROL_MAX_DESCRIPTORS];
    uint32_t count;
    assert_int_equal(control_send(ends[0], &request, sizeof request, NULL, 0), 0);
    close_fd(&ends[0]);
    assert_int_equal(receive(&got, fds, &count), 1); // what it said last
    assert_int_equal(got.pool, 7);
    assert_int_equal(receive(&got, fds, &count), -ECONNRESET);
    assert_int_equal(control_send(ends[1], &request, sizeof request, NULL, 0), -EPIPE); // and no SIGPIPE
}

static void a_peer_that_does_not_read_fills_the_socket(void **state) {
    (void)state;
    struct transfer_report report = {0};
    int sent = 0, err = 0;
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    while (!err && sent++ < 100000)
        err = control_send(ends[0], &report, sizeof report, NULL, 0);
    assert_int_equal(err, -EAGAIN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(structures_come_whole_and_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(descriptors_come_with_their_structure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_descriptors_than_agreed_are_not_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_ours_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_descriptors_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_other_side_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_that_does_not_read_fills_the_socket, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
