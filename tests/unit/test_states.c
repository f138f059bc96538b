// Checked state tables.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/states.h"

enum door_state {
    DOOR_OPEN,
    DOOR_SHUT,
    DOOR_LOCKED
};

static const struct state door_states[] = {
    [DOOR_OPEN] = {"open", STATE(DOOR_SHUT)},
    [DOOR_SHUT] = {"shut", STATE(DOOR_OPEN) | STATE(DOOR_LOCKED)},
    [DOOR_LOCKED] = {"locked", STATE(DOOR_SHUT)},
};
static const struct state_table door_table = STATE_TABLE("door", door_states);

static void allowed_transitions(void **state) {
    (void)state;
    assert_int_equal(state_next(&door_table, DOOR_OPEN, DOOR_SHUT), DOOR_SHUT);
    assert_int_equal(state_next(&door_table, DOOR_SHUT, DOOR_LOCKED), DOOR_LOCKED);
}

static void names(void **state) {
    (void)state;
    assert_string_equal(state_name(&door_table, DOOR_LOCKED), "locked");
    assert_string_equal(state_name(&door_table, 3), "?");
    assert_string_equal(state_name(&door_table, UINT32_MAX), "?");
}

// The signal that ends a process which makes this transition.
static int signal_of(uint32_t from, uint32_t to) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        (void)!state_next(&door_table, from, to);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void other_transitions_abort(void **state) {
    (void)state;
    assert_int_equal(signal_of(DOOR_OPEN, DOOR_SHUT), 0);
    assert_int_equal(signal_of(DOOR_OPEN, DOOR_LOCKED), SIGABRT);
    assert_int_equal(signal_of(DOOR_OPEN, DOOR_OPEN), SIGABRT);
    assert_int_equal(signal_of(DOOR_LOCKED, 3), SIGABRT);
    assert_int_equal(signal_of(40, DOOR_OPEN), SIGABRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allowed_transitions),
        cmocka_unit_test(names),
        cmocka_unit_test(other_transitions_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
