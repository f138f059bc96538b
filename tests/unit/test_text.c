// Text from outside in one line: control characters and what is not UTF-8 are escaped, everything else stays as it is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"

static void control_characters_are_escaped(void **state) {
    static const char *const pairs[][2] = {
        {"", ""},
        {"plain, with \\x1b and \"quotes\"", "plain, with \\x1b and \"quotes\""},
        {"\n", "\\x0a"},
        {"a\033[31mred\r\n", "a\\x1b[31mred\\x0d\\x0a"},
        {"\t\001\177", "\\x09\\x01\\x7f"},
        {"gr\303\274n \342\202\254 \360\237\230\200", "gr\303\274n \342\202\254 \360\237\230\200"},
        {"\377 \303", "\\xff \\xc3"},
        {"\303\303\274\274", "\\xc3\303\274\\xbc"},
        {"\300\200 \340\200\257", "\\xc0\\x80 \\xe0\\x80\\xaf"}, // longer than they need be
        {"\355\240\200", "\\xed\\xa0\\x80"},                     // half of a pair
        {"\364\220\200\200", "\\xf4\\x90\\x80\\x80"},            // past the last character
        {"\302\233"
         "31m",
         "\\xc2\\x9b"
         "31m"}, // a control character of two bytes
        {"end\b", "end\\x08"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", pairs[i][0]);
        text_escape(text, sizeof text);
        assert_string_equal(text, pairs[i][1]);
    }
}

static void what_does_not_fit_is_cut_off_whole(void **state) {
    char text[12];
    (void)state;
    for (size_t room = 5; room <= sizeof text; room++) {
        memset(text, '#', sizeof text);
        memcpy(text, "\n\n\n\n", 5);
        text_escape(text, room);
        assert_int_equal(strlen(text), (room - 1) / 4 * 4);
        for (size_t i = room; i < sizeof text; i++)
            assert_int_equal(text[i], '#');
    }
    memcpy(text, "abcdefghij\303\274", 12);
    text[11] = '\0';
    text_escape(text, sizeof text);
    assert_string_equal(text, "abcdefghij");
    memcpy(text, "ab\ncdefghij", 12);
    text_escape(text, sizeof text);
    assert_string_equal(text, "ab\\x0acdefg");
}

static void errors_have_none(void **state) {
    struct error error = {0};
    (void)state;
    assert_int_equal(error_set(&error, -EINVAL, "found \"%s\"", "\033]0;title\a\nfeedd: OK"), -EINVAL);
    assert_string_equal(error.text, "found \"\\x1b]0;title\\x07\\x0afeedd: OK\"");
    error_prefix(&error, "%s", "a\nb");
    assert_string_equal(error.text, "a\\x0ab: found \"\\x1b]0;title\\x07\\x0afeedd: OK\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_are_escaped),
        cmocka_unit_test(what_does_not_fit_is_cut_off_whole),
        cmocka_unit_test(errors_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
