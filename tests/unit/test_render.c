// Tables at every width, and numbers for people.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "client/ctl/render.h"
#include "client/ctl/text.h"

static const struct column columns[] = {
    {"NAME", false, 0}, {"SAMPLES", true, 0}, {"FORMAT", false, 2}, {"FILES", true, 1}, {"FIELDS", false, 0}};

static void fill(struct table *table) {
    *table = (struct table){.columns = columns, .column_count = COUNT_OF(columns)};
    assert_int_equal(table_add(table, (const char *[]){"a", "60000", "idx", "2", "image, label"}), 0);
    assert_int_equal(table_add(table, (const char *[]){"größe", "5", "records", "10", "x"}), 0);
}

static void prints(const struct table *table, uint32_t width, const char *wanted) {
    char *text AUTO_FREE = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    table_print(table, width, out);
    fclose(out);
    assert_string_equal(text, wanted);
}

static void columns_are_aligned_and_left_out_in_their_order(void **state) {
    (void)state;
    struct table table CLEANUP(table_free);
    fill(&table);
    static const char all[] = "NAME   SAMPLES  FORMAT   FILES  FIELDS\n"
                              "a        60000  idx          2  image, label\n"
                              "größe        5  records     10  x\n";
    prints(&table, 0, all);
    prints(&table, 44, all);
    static const char without_format[] = "NAME   SAMPLES  FILES  FIELDS\n"
                                         "a        60000      2  image, label\n"
                                         "größe        5     10  x\n";
    prints(&table, 43, without_format);
    prints(&table, 35, without_format);
    static const char needed[] = "NAME   SAMPLES  FIELDS\n"
                                 "a        60000  image, label\n"
                                 "größe        5  x\n";
    prints(&table, 34, needed);
    prints(&table, 28, needed);
    prints(&table, 27, "NAME   SAMPLES  FIELDS\na        60000  image, labe\ngröße        5  x\n");
    prints(&table, 16, "NAME   SAMPLES\na        60000\ngröße        5\n");
    prints(&table, 4, "NAME\na\ngröß\n");
    prints(&table, 1, "N\na\ng\n");
}

static void a_narrow_column_takes_the_room_that_a_wide_one_leaves(void **state) {
    (void)state;
    static const struct column some[] = {
        {"KEY", false, 0}, {"IMPORTANT", false, 1}, {"A", false, 2}, {"B", false, 3}};
    struct table table CLEANUP(table_free) = {.columns = some, .column_count = COUNT_OF(some)};
    assert_int_equal(table_add(&table, (const char *[]){"key", "important", "a", "b"}), 0);
    prints(&table, 17, "KEY  IMPORTANT  A\nkey  important  a\n");
    prints(&table, 14, "KEY  IMPORTANT\nkey  important\n");
    prints(&table, 13, "KEY  A  B\nkey  a  b\n");
    prints(&table, 8, "KEY  A\nkey  a\n");
}

static void no_width_prints_a_longer_line(void **state) {
    (void)state;
    struct table table CLEANUP(table_free);
    fill(&table);
    for (uint32_t width = 1; width < 60; width++) {
        char *text AUTO_FREE = NULL;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        table_print(&table, width, out);
        fclose(out);
        uint32_t lines = 0, at = 0;
        for (const char *byte = text; *byte; byte++) {
            at = *byte == '\n' ? 0 : at + ((*byte & 0xc0) != 0x80);
            lines += *byte == '\n';
            assert_true(at <= width);
        }
        assert_int_equal(lines, 3);
    }
}

static void a_title_can_be_left_out_and_rows_be_many(void **state) {
    (void)state;
    static const struct column one[] = {{"N", true, 0}};
    struct table table CLEANUP(table_free) = {.columns = one, .column_count = 1};
    prints(&table, 0, "N\n");
    for (int i = 0; i < 100; i++)
        assert_int_equal(table_add(&table, (const char *[]){"7"}), 0);
    table.no_title = true;
    char wanted[201] = "";
    for (size_t i = 0; i < sizeof wanted - 1; i++)
        wanted[i] = i % 2 ? '\n' : '7';
    prints(&table, 0, wanted);
}

static void control_characters_do_not_reach_the_terminal(void **state) {
    (void)state;
    static const struct column one[] = {{"NAME", false, 0}};
    struct table table CLEANUP(table_free) = {.columns = one, .column_count = 1};
    assert_int_equal(table_add(&table, (const char *[]){"\033[31mred\n\x7f\302\233!\303\274"}), 0);
    prints(&table, 0, "NAME\n?[31mred???\233!\303\274\n");
}

static void folds(const char *line, uint32_t at, uint32_t width, const char *wanted) {
    char *text AUTO_FREE = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    text_fold(line, at, width, out);
    fclose(out);
    assert_string_equal(text, wanted);
}

static void sentences_are_folded_between_words(void **state) {
    (void)state;
    static const char line[] = "größe of /a/very/long/path is  3";
    folds(line, 4, 0, "größe of /a/very/long/path is  3\n");
    folds(line, 4, 36, "größe of /a/very/long/path is  3\n");
    folds(line, 4, 35, "größe of /a/very/long/path is\n    3\n");
    folds(line, 4, 12, "größe of\n    /a/very/long/path\n    is  3\n");
    folds(line, 4, 11, "größe\n    of\n    /a/very/long/path\n    is  3\n");
    folds(line, 4, 1, "größe\n    of\n    /a/very/long/path\n    is\n    3\n");
    folds("", 4, 1, "\n");
    // A number stays with its unit, and with what follows that without a blank.
    folds("loaders copy 100 %, rings 4 GiB, in 2.5 s", 0, 16,
          "loaders copy\n100 %, rings\n4 GiB, in 2.5 s\n");
    folds("after 3 samples", 0, 8, "after 3\nsamples\n");
}

static void answers(const char *text, uint32_t width, const char *wanted, const char *warned) {
    char *text_out AUTO_FREE = NULL, *text_warnings AUTO_FREE = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text_out, &bytes), *warnings = open_memstream(&text_warnings, &bytes);
    text_print_answer(text, width, out, warnings);
    fclose(out);
    fclose(warnings);
    assert_string_equal(text_out, wanted);
    assert_string_equal(text_warnings, warned);
}

static void answers_of_several_lines_are_a_list(void **state) {
    (void)state;
    answers("", 0, "", "");
    answers("serving 1 dataset", 0, "serving 1 dataset\n", "");
    answers("serving 2 datasets now\nwarning: socket = /b is not in effect\nloaders = 2 (was 4)\ndataset "
            "\033x: added",
            16, "serving 2\ndatasets now\n  loaders = 2\n  (was 4)\n  dataset ?x:\n  added\n",
            "feedctl: warning: socket = /b is not in effect\n");
}

static void numbers_are_short(void **state) {
    (void)state;
    char text[CTL_TEXT];
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {{0, "0 B"},           {1023, "1023 B"},      {1024, "1 KiB"},       {1536, "1.50 KiB"},
                 {20 << 20, "20 MiB"}, {1048575, "1.00 MiB"}, {4294967296, "4 GiB"}, {UINT64_MAX, "16 EiB"}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        ctl_format_bytes(sizes[i].bytes, text);
        assert_string_equal(text, sizes[i].text);
    }
    static const struct {
        double value;
        const char *text;
    } counts[] = {{0, "0"},         {3, "3"},          {3.14, "3.1"},    {99.94, "99.9"},
                  {99.96, "100"},   {999.4, "999"},    {999.5, "1.00k"}, {12345, "12.3k"},
                  {999499, "999k"}, {999500, "1.00M"}, {4.5e9, "4.50G"}, {7e15, "7000T"}};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        ctl_format_count(counts[i].value, text);
        assert_string_equal(text, counts[i].text);
    }
    static const struct {
        uint64_t seconds;
        const char *text;
    } times[] = {{5, "5.0 s"},
                 {59, "59.0 s"},
                 {60, "1 min 0 s"},
                 {3599, "59 min 59 s"},
                 {3600, "1 h 0 min"},
                 {86399, "23 h 59 min"},
                 {86400 * 3 + 7200, "3 d 2 h"}};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        ctl_format_duration(times[i].seconds * 1000000000, text);
        assert_string_equal(text, times[i].text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned_and_left_out_in_their_order),
        cmocka_unit_test(a_narrow_column_takes_the_room_that_a_wide_one_leaves),
        cmocka_unit_test(no_width_prints_a_longer_line),
        cmocka_unit_test(a_title_can_be_left_out_and_rows_be_many),
        cmocka_unit_test(control_characters_do_not_reach_the_terminal),
        cmocka_unit_test(sentences_are_folded_between_words),
        cmocka_unit_test(answers_of_several_lines_are_a_list),
        cmocka_unit_test(numbers_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
