// The set of watched descriptors: what is dispatched, what changes and removals do, and refusals by the kernel.
#include "daemon/supervisor/poll_set.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "tests/unit/descriptors.h"

#define CROWD 150u // more than are dispatched at once

struct watched {
    struct poll_entry entry;
    int ends[2];
    uint32_t calls;
    uint32_t events; // of all calls
};

static uv_loop_t loop;
static struct poll_set set;
static unsigned descriptors_before;

static void on_ready(struct poll_entry *entry, uint32_t events) {
    struct watched *watched = CONTAINER_OF(entry, struct watched, entry);
    watched->calls++;
    watched->events |= events;
}

// What libuv opens with its first loop stays.
static int set_up_libuv(void **state) {
    (void)state;
    return uv_loop_init(&loop) || uv_loop_close(&loop);
}

static int set_up(void **state) {
    (void)state;
    descriptors_before = open_descriptors();
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(poll_set_open(&set, &loop), 0);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    poll_set_close(&set);
    poll_set_close(&set); // harmless
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(set.epoll_fd, -1);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(open_descriptors(), descriptors_before);
    return 0;
}

static void open_pipe(struct watched *watched) {
    *watched = (struct watched){0};
    assert_int_equal(pipe2(watched->ends, O_CLOEXEC | O_NONBLOCK), 0);
}

// The reading end.
static void watch(struct watched *watched) {
    assert_int_equal(poll_set_add(&set, &watched->entry, watched->ends[0], EPOLLIN, on_ready), 0);
}

static void close_pipe(struct watched *watched) {
    close_fd(&watched->ends[0]);
    close_fd(&watched->ends[1]);
}

static void write_byte(const struct watched *watched) {
    assert_int_equal(write(watched->ends[1], "x", 1), 1);
}

static void turn(struct watched *watched) {
    watched->calls = watched->events = 0;
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void dispatches_until_it_is_read(void **state) {
    struct watched watched, idle;
    char byte;
    (void)state;
    open_pipe(&watched);
    open_pipe(&idle);
    watch(&watched);
    watch(&idle);
    turn(&watched);
    assert_int_equal(watched.calls, 0);
    write_byte(&watched);
    turn(&watched);
    assert_int_equal(watched.calls, 1);
    assert_int_equal(watched.events, EPOLLIN);
    turn(&watched); // level-triggered
    assert_int_equal(watched.calls, 1);
    assert_int_equal(read(watched.ends[0], &byte, 1), 1);
    turn(&watched);
    assert_int_equal(watched.calls, 0);
    assert_int_equal(idle.calls, 0);
    poll_set_remove(&watched.entry);
    poll_set_remove(&idle.entry);
    close_pipe(&watched);
    close_pipe(&idle);
}

static void a_change_takes_effect(void **state) {
    struct watched watched;
    (void)state;
    open_pipe(&watched);
    watch(&watched);
    write_byte(&watched);
    poll_set_change(&watched.entry, 0);
    turn(&watched);
    assert_int_equal(watched.calls, 0);
    close_fd(&watched.ends[1]);
    turn(&watched);
    assert_int_equal(watched.events, EPOLLHUP); // comes without being asked for
    poll_set_change(&watched.entry, EPOLLIN);
    turn(&watched);
    assert_int_equal(watched.events, EPOLLIN | EPOLLHUP);
    poll_set_remove(&watched.entry);
    close_pipe(&watched);
}

static void a_removed_entry_is_silent(void **state) {
    struct watched watched;
    (void)state;
    open_pipe(&watched);
    watch(&watched);
    write_byte(&watched);
    poll_set_remove(&watched.entry);
    poll_set_remove(&watched.entry); // harmless
    assert_null(watched.entry.set);
    poll_set_change(&watched.entry, EPOLLIN | EPOLLOUT);
    turn(&watched);
    assert_int_equal(watched.calls, 0);
    watch(&watched); // once more
    turn(&watched);
    assert_int_equal(watched.calls, 1);
    poll_set_remove(&watched.entry);
    close_pipe(&watched);
}

static void stop_waiting(struct poll_entry *entry, uint32_t events) {
    on_ready(entry, events);
    poll_set_change(entry, 0);
}

static void an_entry_may_be_changed_while_it_is_dispatched(void **state) {
    struct watched watched;
    (void)state;
    open_pipe(&watched);
    write_byte(&watched);
    assert_int_equal(poll_set_add(&set, &watched.entry, watched.ends[0], EPOLLIN, stop_waiting), 0);
    turn(&watched);
    assert_int_equal(watched.calls, 1);
    turn(&watched);
    assert_int_equal(watched.calls, 0);
    poll_set_remove(&watched.entry);
    close_pipe(&watched);
}

// Each gets its turn although there are more than fit into one.
static void a_crowd_is_dispatched_fairly(void **state) {
    struct watched crowd[CROWD];
    (void)state;
    for (uint32_t i = 0; i < CROWD; i++) {
        open_pipe(&crowd[i]);
        watch(&crowd[i]);
        write_byte(&crowd[i]);
    }
    for (int turns = 0; turns < 12; turns++)
        uv_run(&loop, UV_RUN_NOWAIT);
    for (uint32_t i = 0; i < CROWD; i++) {
        assert_in_range(crowd[i].calls, 3, 12);
        poll_set_remove(&crowd[i].entry);
        close_pipe(&crowd[i]);
    }
}

static void a_descriptor_that_cannot_be_waited_for(void **state) {
    struct watched watched = {.ends = {-1, -1}};
    (void)state;
    AUTO_CLOSE int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(poll_set_add(&set, &watched.entry, file, EPOLLIN, on_ready), -EPERM);
    assert_int_equal(poll_set_add(&set, &watched.entry, -1, EPOLLIN, on_ready), -EBADF);
    assert_null(watched.entry.set);
    poll_set_remove(&watched.entry); // harmless
    poll_set_change(&watched.entry, EPOLLIN);
    turn(&watched);
    assert_int_equal(watched.calls, 0);
}

static void a_second_add_is_refused(void **state) {
    struct watched watched, second = {0};
    (void)state;
    open_pipe(&watched);
    watch(&watched);
    assert_int_equal(poll_set_add(&set, &second.entry, watched.ends[0], EPOLLIN, on_ready), -EEXIST);
    write_byte(&watched);
    turn(&watched);
    assert_int_equal(watched.calls, 1);
    assert_int_equal(second.calls, 0);
    poll_set_remove(&watched.entry);
    close_pipe(&watched);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(dispatches_until_it_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_change_takes_effect, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_removed_entry_is_silent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_entry_may_be_changed_while_it_is_dispatched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_crowd_is_dispatched_fairly, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_descriptor_that_cannot_be_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_add_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, set_up_libuv, NULL);
}
