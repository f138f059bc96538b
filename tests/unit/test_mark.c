// Marks: set twice, cleared, taken in order, and set again while the queue is worked off.
#include "daemon/supervisor/mark.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/sizes.h"

struct object {
    int number;
    struct mark mark;
};

static struct mark_queue queue;
static struct object objects[4];

static int set_up(void **state) {
    (void)state;
    mark_queue_init(&queue);
    for (int i = 0; i < 4; i++)
        objects[i] = (struct object){.number = i};
    return 0;
}

static void set(int number) {
    mark_set(&queue, &objects[number].mark);
}

// -1: nothing is marked.
static int take(void) {
    struct mark *mark = mark_take(&queue);
    return mark ? CONTAINER_OF(mark, struct object, mark)->number : -1;
}

static void nothing_is_marked_at_first(void **state) {
    (void)state;
    assert_int_equal(queue.count, 0);
    assert_int_equal(take(), -1);
}

static void taken_in_the_order_of_the_first_mark(void **state) {
    (void)state;
    set(2);
    set(0);
    set(3);
    set(2);
    set(0);
    assert_int_equal(queue.count, 3);
    assert_int_equal(take(), 2);
    assert_int_equal(take(), 0);
    assert_int_equal(take(), 3);
    assert_int_equal(take(), -1);
    assert_int_equal(queue.count, 0);
}

// As the turn does: what acts may mark itself and others, which then wait for the next round.
static void marked_again_while_it_acts(void **state) {
    (void)state;
    set(0);
    set(1);
    assert_int_equal(take(), 0);
    set(0);
    assert_int_equal(queue.count, 2);
    assert_int_equal(take(), 1);
    assert_int_equal(take(), 0);
    assert_int_equal(take(), -1);
}

static void cleared_before_it_is_freed(void **state) {
    (void)state;
    set(0);
    set(1);
    set(2);
    mark_clear(&queue, &objects[1].mark);
    mark_clear(&queue, &objects[1].mark); // harmless
    mark_clear(&queue, &objects[3].mark); // was never marked
    assert_int_equal(queue.count, 2);
    assert_int_equal(take(), 0);
    mark_clear(&queue, &objects[0].mark); // taken already
    assert_int_equal(take(), 2);
    assert_int_equal(take(), -1);
    set(1);
    assert_int_equal(take(), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_marked_at_first, set_up),
        cmocka_unit_test_setup(taken_in_the_order_of_the_first_mark, set_up),
        cmocka_unit_test_setup(marked_again_while_it_acts, set_up),
        cmocka_unit_test_setup(cleared_before_it_is_freed, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
