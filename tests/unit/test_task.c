// Work in a thread of its own: the loop hears of its end, or leaves it behind.
#include "daemon/supervisor/task.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "tests/unit/descriptors.h"

static uv_loop_t loop;
static struct poll_set set;
static pthread_t ran_in;
static unsigned ended;
static _Atomic unsigned discarded;
static int gate[2];

static int set_up(void **state) {
    (void)state;
    ended = 0;
    atomic_store(&discarded, 0);
    return uv_loop_init(&loop) || poll_set_open(&set, &loop) || pipe(gate);
}

static int tear_down(void **state) {
    (void)state;
    close(gate[0]);
    close(gate[1]);
    poll_set_close(&set);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

// Until the gate opens.
static void run(void *context) {
    char byte;
    (void)context;
    ran_in = pthread_self();
    assert_int_equal(read(gate[0], &byte, 1), 1);
}

static void on_ended(void *context) {
    assert_ptr_equal(context, gate);
    ended++;
}

static void on_discard(void *context) {
    assert_ptr_equal(context, gate);
    atomic_fetch_add(&discarded, 1);
}

static struct task *start(void) {
    const struct task_work work = {.run = run, .ended = on_ended, .discard = on_discard, .context = gate};
    struct task *task = NULL;
    assert_int_equal(task_start(&set, &work, &task), 0);
    return task;
}

static void open_gate(void) {
    assert_int_equal(write(gate[1], "x", 1), 1);
}

static void the_loop_hears_of_the_end(void **state) {
    unsigned before = open_descriptors();
    struct task *task = start();
    (void)state;
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(ended, 0);
    open_gate();
    while (!ended)
        uv_run(&loop, UV_RUN_ONCE);
    assert_false(pthread_equal(ran_in, pthread_self()));
    assert_int_equal(discarded, 0);
    assert_true(task_leave(task));
    assert_int_equal(discarded, 1);
    assert_int_equal(open_descriptors(), before);
}

static void one_that_is_left_behind(void **state) {
    const struct timespec a_while = {.tv_nsec = 1000 * 1000};
    unsigned before = open_descriptors();
    struct task *task = start();
    (void)state;
    assert_false(task_leave(task));
    assert_int_equal(discarded, 0);
    open_gate();
    while (!atomic_load(&discarded) || open_descriptors() != before)
        nanosleep(&a_while, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(ended, 0);
}

// An epoll that is not one.
static void failing_to_start_leaves_the_context(void **state) {
    const struct task_work work = {.run = run, .ended = on_ended, .discard = on_discard, .context = gate};
    struct poll_set broken = {.epoll_fd = gate[0]};
    unsigned before = open_descriptors();
    struct task *task = NULL;
    (void)state;
    assert_true(task_start(&broken, &work, &task) < 0);
    assert_int_equal(discarded, 0);
    assert_int_equal(open_descriptors(), before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_loop_hears_of_the_end),
        TEST(one_that_is_left_behind),
        TEST(failing_to_start_leaves_the_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
