// CSV files, row by row.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/source/folder/csv.h"

// What csv_next makes of a text: cells in brackets, rows with the line where they begin.
static void expect(const char *text, const char *wanted) {
    char copy[256];
    AUTO_FREE struct csv_cell *cells = calloc(CSV_MAX_CELLS, sizeof *cells);
    char found[1024] = "";
    size_t used = 0;
    struct error error = {0};
    struct csv csv;
    uint32_t count;
    int got;
    assert_non_null(cells);
    assert_true(strlen(text) < sizeof copy);
    memcpy(copy, text, strlen(text) + 1);
    csv_start(&csv, copy, strlen(copy));
    while ((got = csv_next(&csv, cells, &count, &error)) == 1) {
        used += (size_t)snprintf(found + used, sizeof found - used, "%d:", (int)csv.row);
        for (uint32_t i = 0; i < count; i++)
            used += (size_t)snprintf(found + used, sizeof found - used, "[%.*s]", (int)cells[i].bytes,
                                     cells[i].text);
    }
    if (got < 0)
        snprintf(found + used, sizeof found - used, "!%.*s", (int)strcspn(error.text, ":"), error.text);
    assert_string_equal(found, wanted);
}

static void test_rows(void **state) {
    (void)state;
    expect("", "");
    expect("\n\r\n\n", "");
    expect("a", "1:[a]");
    expect("a,b\n", "1:[a][b]");
    expect("a,\n,b", "1:[a][]2:[][b]");
    expect(",", "1:[][]");
    expect("a\r\nb\n\nc", "1:[a]2:[b]4:[c]");
    expect("\xef\xbb\xbf"
           "a\n",
           "1:[a]");
    expect(" a , b \n", "1:[ a ][ b ]");
    expect("a\rb,c", "1:[a\rb][c]");
    expect("a\"b,c", "1:[a\"b][c]");
    expect("\r", "1:[\r]");
}

static void test_quotation_marks(void **state) {
    (void)state;
    expect("\"\"", "1:[]");
    expect("\"a,b\",c", "1:[a,b][c]");
    expect("\"a\"\"b\"", "1:[a\"b]");
    expect("\"\"\"\"", "1:[\"]");
    expect("\"a\nb\",c\nd", "1:[a\nb][c]3:[d]");
    expect("\"a\"\r\n\"b\"\n", "1:[a]2:[b]");
}

static void test_what_is_refused(void **state) {
    (void)state;
    expect("\"", "!line 1");
    expect("a\nb,\"c\n\n", "1:[a]!line 2");
    expect("\"a\"b", "!line 1");
    expect("\"a\nb\"c", "!line 2");
    expect("\"a\"\r", "!line 1");
    expect("\"a\" ,b", "!line 1");
}

static void test_columns(void **state) {
    (void)state;
    AUTO_FREE struct csv_cell *cells = calloc(CSV_MAX_CELLS, sizeof *cells);
    struct error error = {0};
    struct csv csv;
    uint32_t count;
    char text[CSV_MAX_CELLS];
    assert_non_null(cells);
    memset(text, ',', sizeof text);
    csv_start(&csv, text, sizeof text - 1);
    assert_int_equal(csv_next(&csv, cells, &count, &error), 1);
    assert_int_equal(count, CSV_MAX_CELLS);
    csv_start(&csv, text, sizeof text);
    assert_int_equal(csv_next(&csv, cells, &count, &error), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_quotation_marks),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests_name("csv", tests, NULL, NULL);
}
