// Child processes on a real loop. This program is its own child: /proc/self/exe with the part it plays as an argument.
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/processes/process.h"
#include "daemon/supervisor/processes/spawn.h"
#include "tests/unit/descriptors.h"

#define TURN_NS (20 * NS_PER_S) // far more than anything here takes

struct fixture {
    uv_loop_t loop;
    struct poll_set poll_set;
    struct process_set processes;
    struct process *process;
    unsigned changes, closed, ready;
    enum process_state seen; // by the last `changed`
    int ready_byte;
};

static struct fixture fixture;

static int set_up(void **state) {
    (void)state;
    fixture = (struct fixture){0};
    return uv_loop_init(&fixture.loop) < 0 || poll_set_open(&fixture.poll_set, &fixture.loop) < 0 ||
           process_set_open(&fixture.processes, &fixture.loop) < 0;
}

// A loop that closes has no handle left.
static int tear_down(void **state) {
    (void)state;
    poll_set_close(&fixture.poll_set);
    process_set_close(&fixture.processes);
    uv_run(&fixture.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&fixture.loop);
}

static void changed(struct process *process) {
    assert_ptr_equal(process->owner, &fixture);
    fixture.changes++;
    fixture.seen = process->state;
}

static void closed(struct process *process) {
    fixture.closed++;
    free(process);
}

static void ready(struct process *process, uint32_t events) {
    uint8_t byte;
    (void)events;
    fixture.ready++;
    if (recv(process->channel_fd, &byte, 1, MSG_DONTWAIT) == 1)
        fixture.ready_byte = byte;
    else
        process_poll_channel(process, 0);
    process->changed(process);
}

static int start_with(const char *part, const int *fds, uint32_t fd_count, int channel, bool talks) {
    struct error error = {0};
    struct process *process = calloc(1, sizeof *process);
    assert_non_null(process);
    char *arguments[] = {(char *)"test_process", (char *)part, NULL};
    const struct process_start options = {
        .processes = &fixture.processes,
        .poll_set = &fixture.poll_set,
        .what = "test process",
        .arguments = arguments,
        .fds = fds,
        .fd_count = fd_count,
        .channel = channel,
        .channel_ready = talks ? ready : NULL,
        .changed = changed,
        .closed = closed,
        .owner = &fixture,
    };
    int err = process_start(process, &options, &error);
    assert_int_equal(err < 0, error.text[0] != 0);
    fixture.process = process; // not to be touched when this failed
    return err;
}

static int start(const char *part, int fd, bool talks) {
    int ends[2];
    assert_int_equal(talks ? socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)
                           : pipe2(ends, O_CLOEXEC | O_NONBLOCK),
                     0);
    const int fds[] = {-1, STDOUT_FILENO, STDERR_FILENO, ends[1], fd};
    int err = start_with(part, fds, fd < 0 ? 4 : 5, ends[0], talks);
    close(ends[1]);
    return err;
}

static void run_until(enum process_state state) {
    uint64_t until = monotonic_ns() + TURN_NS;
    while (fixture.process->state < state && monotonic_ns() < until)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_int_equal(fixture.process->state, state);
    assert_int_equal(fixture.seen, state);
}

static void release(void) {
    process_release(fixture.process);
    while (!fixture.closed)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_int_equal(fixture.closed, 1);
}

// ---- Cases -------------------------------------------------------------------------------------------------

static void one_that_exits(void **state) {
    char text[64];
    unsigned before = open_descriptors();
    (void)state;
    assert_int_equal(start("exit", -1, false), 0);
    assert_int_equal(fixture.changes, 0);
    assert_true(process_pid(fixture.process) > 0);
    run_until(PROCESS_GONE);
    assert_int_equal(fixture.process->exit_status, 7);
    assert_int_equal(fixture.process->exit_signal, 0);
    assert_false(fixture.process->asked);
    assert_in_range(process_lived_ns(fixture.process), 1, TURN_NS);
    process_describe_end(fixture.process, text, sizeof text);
    assert_non_null(strstr(text, "exited with status 7 after "));
    release();
    assert_int_equal(open_descriptors(), before);
}

static void one_that_is_asked_to_end(void **state) {
    (void)state;
    assert_int_equal(start("sleep", -1, false), 0);
    process_stop(fixture.process);
    assert_int_equal(fixture.process->state, PROCESS_STOPPING);
    assert_int_equal(fixture.changes, 0); // its owner knows
    run_until(PROCESS_GONE);
    assert_int_equal(fixture.process->exit_signal, SIGTERM);
    assert_true(fixture.process->asked);
    release();
}

static void one_that_does_not_listen_is_killed_after_the_deadline(void **state) {
    char text[64];
    (void)state;
    assert_int_equal(start("deaf", -1, true), 0);
    while (!fixture.ready) // from then on it is deaf
        uv_run(&fixture.loop, UV_RUN_ONCE);
    process_stop(fixture.process);
    uint64_t asked = fixture.process->signalled_ns;
    process_watch(fixture.process, asked + NS_PER_S - 1, NS_PER_S);
    assert_int_equal(fixture.process->state, PROCESS_STOPPING);
    process_watch(fixture.process, asked + NS_PER_S, NS_PER_S);
    assert_int_equal(fixture.process->state, PROCESS_KILLED);
    uint64_t killed = fixture.process->signalled_ns;
    assert_false(process_hangs(fixture.process, killed + NS_PER_S - 1, NS_PER_S));
    assert_true(process_hangs(fixture.process, killed + NS_PER_S, NS_PER_S));
    assert_false(process_lingers(fixture.process, killed + NS_PER_S - 1, NS_PER_S));
    assert_true(process_lingers(fixture.process, killed + NS_PER_S, NS_PER_S));
    process_stop(fixture.process); // too late, and harmless
    assert_int_equal(fixture.process->state, PROCESS_KILLED);
    run_until(PROCESS_GONE);
    assert_true(fixture.process->asked);
    process_describe_end(fixture.process, text, sizeof text);
    assert_non_null(strstr(text, "was killed by signal 9 (Killed) after "));
    release();
}

static void one_that_is_killed_outright(void **state) {
    (void)state;
    assert_int_equal(start("sleep", -1, false), 0);
    process_kill(fixture.process);
    run_until(PROCESS_GONE);
    assert_int_equal(fixture.process->exit_signal, SIGKILL);
    assert_false(fixture.process->asked);
    release();
}

// As a loader whose io_uring the kernel is still emptying: reaped, but the far end of the pipe is open somewhere.
static void a_pipe_that_is_held_on_to_keeps_it_from_being_gone(void **state) {
    (void)state;
    assert_int_equal(start("leave a child", -1, false), 0);
    run_until(PROCESS_EXITED);
    assert_true(process_is_reaped(fixture.process));
    assert_false(process_lingers(fixture.process, fixture.process->ended_ns + NS_PER_S - 1, NS_PER_S));
    assert_true(process_lingers(fixture.process, fixture.process->ended_ns + NS_PER_S, NS_PER_S));
    process_stop(fixture.process); // its number may be another's by now
    process_kill(fixture.process);
    assert_int_equal(fixture.process->state, PROCESS_EXITED);
    assert_false(fixture.process->asked);
    run_until(PROCESS_GONE);
    assert_int_equal(fixture.changes, 2);
    release();
}

static void a_socket_that_is_held_on_to_does_not(void **state) {
    (void)state;
    assert_int_equal(start("leave a child", -1, true), 0);
    run_until(PROCESS_GONE);
    struct pollfd end = {.fd = fixture.process->channel_fd, .events = POLLIN}; // that child's
    assert_int_equal(poll(&end, 1, 10000), 1);
    release();
}

static void a_pipe_that_ends_first(void **state) {
    (void)state;
    assert_int_equal(start("close, then sleep", -1, false), 0);
    while (!fixture.changes)
        uv_run(&fixture.loop, UV_RUN_ONCE);
    assert_int_equal(fixture.seen, PROCESS_RUNNING);
    process_stop(fixture.process);
    run_until(PROCESS_GONE);
    assert_int_equal(fixture.changes, 2);
    release();
}

static void what_it_says_last_is_there_when_it_is_gone(void **state) {
    (void)state;
    assert_int_equal(start("say and exit", -1, true), 0);
    process_poll_channel(fixture.process, 0); // this loop is busy elsewhere
    run_until(PROCESS_GONE);
    ready(fixture.process, EPOLLIN);
    assert_int_equal(fixture.ready_byte, '!');
    release();
}

static void descriptors_arrive_by_number(void **state) {
    (void)state;
    int memory = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(start("write to 4", memory, false), 0);
    run_until(PROCESS_GONE);
    char text[8] = {0};
    assert_int_equal(pread(memory, text, sizeof text, 0), 4);
    assert_string_equal(text, "here");
    assert_int_equal(fixture.process->exit_status, 0);
    close(memory);
    release();
}

static void one_that_cannot_become_the_program(void **state) {
    char text[64];
    (void)state;
    assert_int_equal(start("exit", 1 << 20, false), 0); // no such descriptor can be passed on
    run_until(PROCESS_GONE);
    assert_int_equal(fixture.process->exit_status, SPAWN_NO_EXEC);
    process_describe_end(fixture.process, text, sizeof text);
    assert_non_null(strstr(text, "could not be executed"));
    release();
}

// A channel that cannot be waited for.
static void failing_to_start_leaves_nothing(void **state) {
    unsigned before = open_descriptors();
    const int fds[] = {-1, STDOUT_FILENO, STDERR_FILENO};
    (void)state;
    assert_int_equal(start_with("sleep", fds, COUNT_OF(fds), memfd_create("test", MFD_CLOEXEC), false),
                     -EPERM);
    assert_int_equal(fixture.closed, 1);
    assert_int_equal(fixture.changes, 0);
    assert_true(LIST_EMPTY(&fixture.processes.running));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(open_descriptors(), before);
}

// Reaped elsewhere, so how it ended is not known.
static void one_that_ends_unheard(void **state) {
    (void)state;
    assert_int_equal(start("exit", -1, false), 0);
    while (waitpid(process_pid(fixture.process), NULL, 0) < 0)
        ;
    run_until(PROCESS_GONE);
    assert_int_equal(fixture.process->exit_signal, 0);
    release();
}

// ---- As the child ------------------------------------------------------------------------------------------

static int play(const char *part) {
    alarm(60);
    if (strcmp(part, "exit") == 0)
        return 7;
    if (strcmp(part, "leave a child") == 0)
        return fork() == 0 ? usleep(300000), 0 : 0;
    if (strcmp(part, "say and exit") == 0)
        return send(3, "!", 1, 0) == 1 ? 0 : 1;
    if (strcmp(part, "write to 4") == 0)
        return write(4, "here", 4) == 4 ? 0 : 1;
    if (strcmp(part, "close, then sleep") == 0)
        close(3);
    if (strcmp(part, "deaf") == 0) {
        signal(SIGTERM, SIG_IGN);
        if (send(3, "!", 1, 0) != 1)
            return 1;
    }
    while (true)
        pause();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    if (argc > 1)
        return play(argv[1]);
    const struct CMUnitTest tests[] = {
        TEST(one_that_exits),
        TEST(one_that_is_asked_to_end),
        TEST(one_that_does_not_listen_is_killed_after_the_deadline),
        TEST(one_that_is_killed_outright),
        TEST(a_pipe_that_is_held_on_to_keeps_it_from_being_gone),
        TEST(a_socket_that_is_held_on_to_does_not),
        TEST(a_pipe_that_ends_first),
        TEST(what_it_says_last_is_there_when_it_is_gone),
        TEST(descriptors_arrive_by_number),
        TEST(one_that_cannot_become_the_program),
        TEST(failing_to_start_leaves_nothing),
        TEST(one_that_ends_unheard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
