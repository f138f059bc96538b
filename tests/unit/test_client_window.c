// What libfeed makes of a shuffle window that the daemon describes: the order, or a refusal.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "client/lib/own_window.h"

#define OFFSET 24u

static const uint64_t words[] = {2, 4, 0, 5, 6, 9, 20}; // struct window_groups

static int make_memory(const uint64_t *with) {
    int fd = memfd_create("groups", MFD_CLOEXEC);
    assert_int_equal(pwrite(fd, with, sizeof words, OFFSET), sizeof words);
    return fd;
}

static Feedd__Window describe(void) {
    Feedd__Window about = FEEDD__WINDOW__INIT;
    about.bytes = sizeof words;
    about.offset = OFFSET;
    about.stored = 20;
    about.first = 3;
    return about;
}

static void test_it_is_the_order_of_the_run(void **state) {
    (void)state;
    AUTO_CLOSE int fd = make_memory(words);
    Feedd__Window about = describe();
    struct own_window window = {0};
    struct window_order *order;
    uint64_t found[17], right[17];
    assert_int_equal(own_window_open(&window, 16, 7, &about, fd, NULL), 0);
    assert_int_equal(window_order_open((const void *)words, 3, 16, 7, &order), 0);
    window_order_samples(window.order, 5, 0, 17, found);
    window_order_samples(order, 5, 0, 17, right);
    assert_memory_equal(found, right, sizeof right);
    assert_int_equal(found[16], UINT64_MAX);
    window_order_close(order);
    own_window_close(&window);
    own_window_close(&window);
}

static void assert_refused(uint64_t samples, const Feedd__Window *about, const uint64_t *with,
                           const char *sentence) {
    AUTO_CLOSE int fd = make_memory(with);
    struct own_window window = {0};
    struct error error = {0};
    assert_int_equal(own_window_open(&window, samples, 7, about, fd, &error), -EPROTO);
    if (!strstr(error.text, sentence))
        fail_msg("\"%s\" is not in \"%s\"", sentence, error.text);
    own_window_close(&window);
}

static void test_what_cannot_be(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes, offset, stored, first;
        const char *sentence;
    } cases[] = {
        {0, OFFSET, 20, 3, "too few"},
        {sizeof words + 8, OFFSET, 20, 3, "cannot be read"},
        {sizeof words - 8, OFFSET, 20, 3, "wanted 1 to"},
        {sizeof words, UINT64_MAX - 8, 20, 3, "cannot be read"},
        {sizeof words, INT64_MAX, 20, 3, "cannot be read"},
        {sizeof words, OFFSET + 8, 20, 3, "cannot be read"},
        {UINT64_MAX, OFFSET, 20, 3, "too many"},
        {sizeof words, OFFSET, 21, 3, "wanted 0 to 21"},
        {sizeof words, OFFSET, 20, 5, "does not have"},
        {sizeof words, OFFSET, 20, UINT64_MAX, "does not have"},
        {sizeof words, OFFSET, 15, 0, "does not have"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        Feedd__Window about = describe();
        about.bytes = cases[i].bytes;
        about.offset = cases[i].offset;
        about.stored = cases[i].stored;
        about.first = cases[i].first;
        assert_refused(16, &about, words, cases[i].sentence);
    }
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        static const char *const sentences[] = {"window of 0", "wanted 1 to", "from sample 99"};
        uint64_t bad[COUNT_OF(words)];
        Feedd__Window about = describe();
        memcpy(bad, words, sizeof bad);
        bad[i] = i == 0 ? 0 : 99;
        assert_refused(16, &about, bad, i < 3 ? sentences[i] : i == 6 ? "to 99" : "no samples in group");
    }
    assert_refused(16, NULL, words, "missing");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_the_order_of_the_run),
        cmocka_unit_test(test_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
