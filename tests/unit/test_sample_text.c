// Which bytes are text, and how a text is printed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "client/ctl/sample_text.h"

#define IS_TEXT(literal) sample_text_is((const uint8_t *)(literal), sizeof(literal) - 1, &length)

static void text_is_utf_8_that_can_be_printed(void **state) {
    (void)state;
    size_t length;
    assert_true(IS_TEXT("plain text") && length == 10);
    assert_true(IS_TEXT("padded\0\0\0\0") && length == 6);
    assert_true(IS_TEXT("größe 犬 😀") && length == strlen("größe 犬 😀"));
    assert_true(IS_TEXT("lines\r\nand\ttabs\n"));
    assert_true(IS_TEXT("e\314\201")); // an accent that stands alone
}

static void other_bytes_are_no_text(void **state) {
    (void)state;
    size_t length;
    assert_false(IS_TEXT(""));
    assert_false(IS_TEXT("\0\0\0"));
    assert_false(IS_TEXT("\0text"));
    assert_false(IS_TEXT("te\0xt"));
    assert_false(IS_TEXT("red \033[31m"));
    assert_false(IS_TEXT("bell \a"));
    assert_false(IS_TEXT("delete \177"));
    assert_false(IS_TEXT("\302\233"
                         "31m"));                     // a control sequence in one character
    assert_false(IS_TEXT("\377\376"));                // no UTF-8
    assert_false(IS_TEXT("cut \303"));                // half a character
    assert_false(IS_TEXT("\355\240\200"));            // a surrogate
    assert_false(IS_TEXT("\300\257"));                // "/", too long
    assert_false(IS_TEXT("\364\220\200\200"));        // past the last character
    assert_false(IS_TEXT("abc \342\200\256 cba"));    // from right to left
    assert_false(IS_TEXT("line \342\200\250 break")); // not one that we know
}

static void prints(const char *text, uint32_t at, uint32_t width, const char *wanted) {
    char *found AUTO_FREE = NULL;
    size_t bytes;
    FILE *out = open_memstream(&found, &bytes);
    assert_non_null(out);
    sample_text_print((const uint8_t *)text, strlen(text), at, width, out);
    fclose(out);
    assert_string_equal(found, wanted);
}

static void texts_are_escaped(void **state) {
    (void)state;
    prints("a \"b\" \\n", 0, 0, "\"a \\\"b\\\" \\\\n\"\n");
    prints("tab\tand\r", 0, 0, "\"tab\\tand\\r\"\n");
    prints("two\nlines\n", 2, 0, "\"two\\n\n  lines\\n\"\n");
    prints("safe \033[31m", 0, 0, "\"safe \"\n"); // if the bytes change after the check
}

static void texts_are_folded(void **state) {
    (void)state;
    prints("one two three", 0, 9, "\"one two \nthree\"\n");
    prints("one two three", 2, 9, "\"one \n  two \n  three\"\n");
    prints("one two", 0, 9, "\"one two\"\n");
    prints("one twos", 0, 9, "\"one \ntwos\"\n"); // with the quote it is too long
    prints("abcdefghij", 2, 6, "\"abc\n  defg\n  hij\"\n");
    prints("犬犬犬犬", 0, 5, "\"犬犬\n犬犬\"\n"); // each is two columns wide
    prints("abc d", 0, 4, "\"abc\nd\"\n");        // the line takes the place of the blank
    prints("abc", 4, 1, "\"\n    a\n    b\n    c\n    \"\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_utf_8_that_can_be_printed),
        cmocka_unit_test(other_bytes_are_no_text),
        cmocka_unit_test(texts_are_escaped),
        cmocka_unit_test(texts_are_folded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
