// What a confined loader still has to be able to do, in child processes. What it cannot do any more is tried by
// tests/integration/test_confine.py.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/confine/confine.h"
#include "daemon/loader/read/fault_guard.h"
#include "daemon/log.h"
#include "shm/confinement.h"

static void confine(bool threads) {
    const struct confine_loader loader = {.threads = threads};
    log_open("test", LOG_LEVEL_ERROR);
    uint64_t confined = confine_loader(&loader, confine_loader_early(0, 0));
    if (confinement_wanted(confined) == 0)
        _exit(100);
}

// The status with which a child ends that runs `body`.
static int run(void (*body)(void)) {
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void expect_success(void (*body)(void)) {
    int status = run(body);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void check(bool holds, int number) {
    if (!holds)
        _exit(number);
}

// Small and large, so that the heap grows, shrinks and maps.
static void use_memory(void) {
    confine(false);
    for (size_t bytes = 1; bytes < 32u << 20; bytes *= 3) {
        char *memory = calloc(1, bytes);
        check(memory, 1);
        memset(memory, 1, bytes);
        char *larger = realloc(memory, 2 * bytes);
        check(larger, 2);
        free(larger);
    }
}

static void memory(void **state) {
    (void)state;
    expect_success(use_memory);
}

static void stop_itself(void) {
    confine(false);
    abort();
}

static void an_abort_is_one(void **state) {
    (void)state;
    int status = run(stop_itself);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_false(WCOREDUMP(status));
}

static void survive_a_fault(void) {
    confine(false);
    check(fault_guard_open() == 0, 1);
    uint8_t *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(page != MAP_FAILED, 2);
    if (sigsetjmp(fault_guard.escape, 0) == 0) {
        fault_guard_enter(page, 4096);
        *(volatile uint8_t *)page;
        _exit(3);
    }
    fault_guard_close();
}

static void faults_are_caught(void **state) {
    (void)state;
    expect_success(survive_a_fault);
}

static void say_something(void) {
    confine(false);
    log_warning("a line that is below the level");
    log_error("a line of a confined process");
    struct timespec soon = {.tv_nsec = 1000};
    check(clock_nanosleep(CLOCK_MONOTONIC, 0, &soon, NULL) == 0, 1);
}

static void it_logs_and_sleeps(void **state) {
    (void)state;
    expect_success(say_something);
}

static void *work(void *memory) {
    free(malloc(1 << 20));
    return memory;
}

static void start_threads(void) {
    pthread_t threads[8];
    void *result;
    confine(true);
    for (int i = 0; i < 8; i++)
        check(pthread_create(&threads[i], NULL, work, threads) == 0, 1);
    for (int i = 0; i < 8; i++)
        check(pthread_join(threads[i], &result) == 0 && result == threads, 2);
}

static void threads_where_they_are_allowed(void **state) {
    (void)state;
    expect_success(start_threads);
}

static void give_up_nothing(void) {
    confine_set(false);
    check(confine_loader_early(0, 0) == 0, 1);
    check(confine_loader(&(struct confine_loader){0}, 0) == 0, 2);
    check(confine_supervisor() == 0 && confine_transfer(confine_transfer_early()) == 0, 3);
    check(strcmp(confine_note(), "confine = no") == 0, 4);
    check(access("/", R_OK) == 0, 5);
}

static void nothing_is_wanted(void **state) {
    (void)state;
    expect_success(give_up_nothing);
}

static void missing_parts_are_listed(void **state) {
    (void)state;
    char text[CONFINE_TEXT];
    assert_false(confine_describe_missing(confinement_word(7, 7), text));
    assert_string_equal(text, "");
    uint32_t calls = 1u << CONFINED_CALLS, paths = 1u << CONFINED_PATHS, tcp = 1u << CONFINED_TCP;
    assert_true(confine_describe_missing(confinement_word(calls | paths | tcp, tcp), text));
    assert_string_equal(text, "no_paths, system_calls");
    assert_true(confine_describe_missing(confinement_word(UINT32_MAX, 0), text));
    assert_non_null(strstr(text, "io_uring")); // all of them fit
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory),
        cmocka_unit_test(an_abort_is_one),
        cmocka_unit_test(faults_are_caught),
        cmocka_unit_test(it_logs_and_sleeps),
        cmocka_unit_test(threads_where_they_are_allowed),
        cmocka_unit_test(nothing_is_wanted),
        cmocka_unit_test(missing_parts_are_listed),
    };
    return cmocka_run_group_tests_name("confine", tests, NULL, NULL);
}
