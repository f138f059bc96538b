// The daemon's log: one line per message, levels, the journal's prefix, a limit on repetition, and readers that do not
// read.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/log.h"

static int kept_stderr = -1;
static char output[65536];

static int begin(void **state) {
    (void)state;
    AUTO_CLOSE int sink = memfd_create("stderr", MFD_CLOEXEC);
    kept_stderr = dup(STDERR_FILENO);
    unsetenv("JOURNAL_STREAM");
    return sink < 0 || kept_stderr < 0 || dup2(sink, STDERR_FILENO) < 0 ? -1 : 0;
}

static int end(void **state) {
    (void)state;
    if (kept_stderr >= 0 && dup2(kept_stderr, STDERR_FILENO) < 0)
        return -1;
    close_fd(&kept_stderr);
    return 0;
}

// All that was logged since `begin`. The test's own complaints go to where they belong from here on.
static const char *take_output(void) {
    ssize_t bytes = pread(STDERR_FILENO, output, sizeof output - 1, 0);
    output[bytes < 0 ? 0 : bytes] = 0;
    end(NULL);
    return output;
}

static uint32_t count_of(const char *text, const char *word) {
    uint32_t count = 0;
    for (const char *at = text; (at = strstr(at, word)); at++)
        count++;
    return count;
}

static void test_a_line_says_when_who_and_how_bad(void **state) {
    (void)state;
    log_open("loader 7", LOG_LEVEL_INFO);
    log_warning("only %d left", 3);
    int year, month, day, hour, minute, second, thousandth, pid, used = 0;
    const char *text = take_output();
    int fields = sscanf(text, "%4d-%2d-%2d %2d:%2d:%2d.%3d loader 7[%d] warning: only 3 left\n%n", &year,
                        &month, &day, &hour, &minute, &second, &thousandth, &pid, &used);
    assert_int_equal(fields, 8);
    assert_int_equal(pid, getpid());
    assert_int_equal(used, strlen(text));
}

static void test_levels(void **state) {
    (void)state;
    log_open("feedd", LOG_LEVEL_WARNING);
    assert_int_equal(log_get_level(), LOG_LEVEL_WARNING);
    log_error("one");
    log_warning("two");
    log_info("three");
    log_debug("four");
    log_set_level(LOG_LEVEL_DEBUG);
    log_debug("five");
    const char *text = take_output();
    assert_non_null(strstr(text, "error: one\n"));
    assert_non_null(strstr(text, "warning: two\n"));
    assert_null(strstr(text, "three"));
    assert_null(strstr(text, "four"));
    assert_non_null(strstr(text, "debug: five\n"));
}

static void test_the_journal_is_told_the_priority_alone(void **state) {
    (void)state;
    struct stat status;
    char stream[64];
    assert_int_equal(fstat(STDERR_FILENO, &status), 0);
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)status.st_dev,
             (unsigned long long)status.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    log_open("feedd", LOG_LEVEL_DEBUG);
    log_error("a");
    log_warning("b");
    log_info("c");
    log_open("loader 7", LOG_LEVEL_DEBUG);
    log_debug("d");
    unsetenv("JOURNAL_STREAM");
    assert_string_equal(take_output(), "<3>a\n<4>b\n<6>c\n<7>loader 7: d\n");
}

// A service may send its errors somewhere else; the variable is there all the same.
static void test_a_redirected_stderr_is_no_journal(void **state) {
    (void)state;
    static const char *const streams[] = {"8:1234", "8", "", "8:x"};
    for (size_t i = 0; i < COUNT_OF(streams); i++) {
        setenv("JOURNAL_STREAM", streams[i], 1);
        log_open("feedd", LOG_LEVEL_INFO);
        log_error("a");
        assert_null(strstr(take_output(), "<3>"));
    }
    unsetenv("JOURNAL_STREAM");
}

static void test_errno_is_shown_and_kept(void **state) {
    (void)state;
    log_open("feedd", LOG_LEVEL_INFO);
    errno = ENOSPC;
    log_error("cannot write: %m");
    int after = errno;
    log_debug("not shown");
    assert_int_equal(after, ENOSPC);
    assert_int_equal(errno, ENOSPC);
    AUTO_CLOSE int sink = dup(STDERR_FILENO);
    close(STDERR_FILENO);
    errno = EXDEV;
    log_error("nobody can read this");
    after = errno;
    assert_int_equal(dup2(sink, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(after, EXDEV);
    assert_non_null(strstr(take_output(), "cannot write: No space left on device\n"));
}

static void test_a_long_message_is_cut_and_still_one_line(void **state) {
    (void)state;
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    log_open("a role whose name is longer than there is room for", LOG_LEVEL_INFO);
    log_error("%s", text);
    const char *shown = take_output();
    assert_in_range(strlen(shown), 1000, 1300);
    assert_int_equal(count_of(shown, "\n"), 1);
    assert_int_equal(shown[strlen(shown) - 1], '\n');
}

static void test_repetition_is_counted_not_shown(void **state) {
    (void)state;
    log_open("feedd", LOG_LEVEL_INFO);
    for (int i = 0; i < 500; i++)
        log_error("the disk is on fire");
    log_info("another thing");
    log_error("the disk is on fire");
    const char *text = take_output();
    assert_int_equal(count_of(text, "the disk is on fire"), 11);
    assert_int_equal(count_of(text, "was repeated 490 times"), 1);
    assert_true(strstr(text, "repeated 490") < strstr(text, "another thing"));
}

static void test_different_messages_are_all_shown(void **state) {
    (void)state;
    log_open("feedd", LOG_LEVEL_INFO);
    for (int i = 0; i < 200; i++)
        log_info("number %d;", i);
    const char *text = take_output();
    assert_int_equal(count_of(text, "number "), 200);
    assert_null(strstr(text, "more times"));
}

// A peer's name may appear in a message; it must not be able to add lines.
static void test_a_message_is_one_line_whatever_is_in_it(void **state) {
    (void)state;
    log_open("feedd", LOG_LEVEL_INFO);
    log_info("session of %s", "me\n2026-01-01 00:00:00.000 feedd[1] error: forged\x1b[2J\r");
    const char *text = take_output();
    assert_int_equal(count_of(text, "\n"), 1);
    assert_null(strchr(text, '\x1b'));
    assert_null(strchr(text, '\r'));
    assert_non_null(strstr(text, "forged"));
}

// ---- Readers that do not read ------------------------------------------------------------------------------

#define LINES 20000 // far more than a pipe or socket takes

static int reader = -1; // the other end of stderr

// Puts `writer` in place of stderr. A write that blocked would be ended by the alarm, and the test with it.
static void log_into(int writer) {
    assert_int_equal(dup2(writer, STDERR_FILENO), STDERR_FILENO);
    close(writer);
    log_open("feedd", LOG_LEVEL_INFO);
    alarm(20);
}

static void log_into_pipe(void) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    reader = ends[0];
    log_into(ends[1]);
}

static void log_into_socket(void) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    reader = ends[0];
    log_into(ends[1]);
}

// What has been written so far; stderr stays.
static const char *read_some(void) {
    static char text[4 << 20];
    size_t used = 0;
    ssize_t got;
    int flags = fcntl(reader, F_GETFL);
    assert_int_equal(fcntl(reader, F_SETFL, flags | O_NONBLOCK), 0);
    while ((got = read(reader, text + used, sizeof text - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = 0;
    return text;
}

// Everything that got through is whole and in order; returns how much.
static int count_numbers(const char *text, int from) {
    int count = 0, number, used;
    char level[16];
    for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
        assert_non_null(strchr(at, '\n'));
        if (sscanf(at, "%*s %*s feedd[%*d] %15[a-z]: number %d;%n", level, &number, &used) == 2)
            assert_int_equal(number, from + count++);
    }
    return count;
}

static void check_stopped_reader(void) {
    for (int i = 0; i < LINES; i++)
        log_info("number %d;", i);
    assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0); // not only ours
    const char *text = read_some();
    int through = count_numbers(text, 0);
    assert_in_range(through, 10, LINES - 1);
    assert_null(strstr(text, "dropped"));

    for (int i = 0; i < 3; i++)
        log_info("number %d;", LINES + i);
    char note[64];
    snprintf(note, sizeof note, "warning: %d lines were dropped: ", LINES - through);
    text = read_some();
    assert_int_equal(count_numbers(text, LINES), 3);
    assert_int_equal(count_of(text, "dropped"), 1);
    assert_non_null(strstr(text, note));
    assert_true(strstr(text, note) < strstr(text, "number"));
    alarm(0);
    end(NULL);
    close_fd(&reader);
    log_open("feedd", LOG_LEVEL_INFO);
}

static void test_a_full_pipe(void **state) {
    (void)state;
    log_into_pipe();
    check_stopped_reader();
}

static void test_a_full_socket(void **state) {
    (void)state;
    log_into_socket();
    check_stopped_reader();
}

// As under sudo: the pipe belongs to somebody else, so that it cannot be opened again.
static void test_a_full_pipe_of_another_user(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip();
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    reader = ends[0];
    assert_int_equal(seteuid(65534), 0);
    log_into(ends[1]);
    assert_int_equal(seteuid(0), 0);
    check_stopped_reader();
}

static void test_a_reader_that_is_gone(void **state) {
    (void)state;
    log_into_pipe();
    close_fd(&reader);
    void (*before)(int) = signal(SIGPIPE, SIG_IGN); // as the daemon does
    for (int i = 0; i < 100; i++)
        log_info("number %d;", i);
    signal(SIGPIPE, before);
    alarm(0);
}

// A terminal may take part of a line: the rest precedes the next one.
static void test_a_line_taken_in_part(void **state) {
    (void)state;
    static char filler[900], text[1 << 20];
    memset(filler, 'x', sizeof filler - 1);
    reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (reader < 0 || grantpt(reader) < 0 || unlockpt(reader) < 0)
        skip();
    log_into(open(ptsname(reader), O_RDWR | O_NOCTTY | O_CLOEXEC));
    for (int i = 0; i < 200; i++)
        log_info("number %d;%s", i, filler);
    // What a terminal has taken reaches its reader a little later.
    for (int i = 0; i < 1000 && !strstr(text, "the last"); i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s", read_some());
        log_info("the last of %d", i);
        usleep(10000);
    }
    assert_non_null(strstr(text, "the last"));
    assert_non_null(strstr(text, "dropped"));
    assert_in_range(count_of(text, "number "), 1, 199);
    assert_int_equal(count_of(text, "\n"), count_of(text, "feedd["));
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        assert_int_equal(strncmp(line, text, 4), 0); // the year
    alarm(0);
    end(NULL);
    close_fd(&reader);
    log_open("feedd", LOG_LEVEL_INFO);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(test_a_line_says_when_who_and_how_bad),
        CASE(test_levels),
        CASE(test_the_journal_is_told_the_priority_alone),
        CASE(test_errno_is_shown_and_kept),
        CASE(test_a_long_message_is_cut_and_still_one_line),
        CASE(test_repetition_is_counted_not_shown),
        CASE(test_a_message_is_one_line_whatever_is_in_it),
        CASE(test_a_redirected_stderr_is_no_journal),
        CASE(test_different_messages_are_all_shown),
        CASE(test_a_full_pipe),
        CASE(test_a_full_socket),
        CASE(test_a_full_pipe_of_another_user),
        CASE(test_a_reader_that_is_gone),
        CASE(test_a_line_taken_in_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
