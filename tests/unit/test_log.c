// The daemon's log: one line a message, levels, the journal's prefix, and that a message that repeats
// itself is cut short.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>
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
    log_debug("d");
    unsetenv("JOURNAL_STREAM");
    assert_string_equal(take_output(), "<3>feedd: a\n<4>feedd: b\n<6>feedd: c\n<7>feedd: d\n");
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
    assert_int_equal(count_of(text, "came 490 more times"), 1);
    assert_true(strstr(text, "490 more") < strstr(text, "another thing"));
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

// What a peer calls itself may get into a message; it must not be able to write lines of its own.
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

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(test_a_line_says_when_who_and_how_bad),         CASE(test_levels),
        CASE(test_the_journal_is_told_the_priority_alone),   CASE(test_errno_is_shown_and_kept),
        CASE(test_a_long_message_is_cut_and_still_one_line), CASE(test_repetition_is_counted_not_shown),
        CASE(test_a_message_is_one_line_whatever_is_in_it),  CASE(test_a_redirected_stderr_is_no_journal),
        CASE(test_different_messages_are_all_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
