// What feedctl read --verify makes of the index that a daemon sends, and that it believes no number in it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/path_text.h"
#include "base/sizes.h"
#include "client/ctl/files_index.h"

#define FIELDS  4u
#define SAMPLES 2u
#define WORDS   18u

// Extents from byte 8 on, values of two bytes from byte 40 on, and from byte 48 on the documents of two files: three
// that begin with the tokens 0, 2 and 2, then one.
static const uint64_t example[WORDS] = {
    WORDS * 8,  512, 0,  1024, UINT64_C(7) << 32 | 1,
    0x04030201, // no bytes in file 0, 7 bytes in file 1
    0,          3,   96, 3,    1,
    120,        0,   2,  2,    0,
    0,          0,
};

static struct files_index take(Feedd__Column__Kind kind, uint64_t offset, uint64_t bytes) {
    struct files_index index = {.count = WORDS};
    struct error error = {0};
    Feedd__Column column = FEEDD__COLUMN__INIT, *list[] = {&column};
    Feedd__Answer page = FEEDD__ANSWER__INIT;
    column.field = 1;
    column.kind = kind;
    column.offset = offset;
    column.bytes = bytes;
    column.pad = 9;
    page.n_columns = 1;
    page.columns = list;
    assert_int_equal(files_index_take(&index, FIELDS, &page, &error), 0);
    assert_true(index.known && index.columns[1].known && !index.columns[0].known);
    assert_int_equal(index.columns[1].pad, 9);
    index.words = malloc(sizeof example);
    assert_non_null(index.words);
    memcpy(index.words, example, sizeof example);
    return index;
}

static void right(Feedd__Column__Kind kind, uint64_t offset, uint64_t bytes) {
    struct error error = {0};
    struct files_index index = take(kind, offset, bytes);
    const struct feed_array array = {.shape = {10}, .bytes = 10 * bytes};
    assert_int_equal(files_index_check(&index, 1, &array, SAMPLES, 2, &error), 0);
    files_index_free(&index);
}

static void wrong(Feedd__Column__Kind kind, uint64_t offset, uint64_t bytes, uint64_t samples,
                  uint64_t files) {
    struct error error = {0};
    struct files_index index = take(kind, offset, bytes);
    const struct feed_array array = {.shape = {10}, .bytes = 10 * 8};
    assert_int_equal(files_index_check(&index, 1, &array, samples, files, &error), -EPROTO);
    assert_non_null(strstr(error.text, "does not hold all samples of field 1"));
    index.columns[1].transformed = true; // nothing of it is read then
    assert_int_equal(files_index_check(&index, 1, &array, samples, files, &error), 0);
    files_index_free(&index);
}

static void columns_lie_in_the_index(void **state) {
    (void)state;
    right(FEEDD__COLUMN__KIND__EXTENTS, 8, 8);
    right(FEEDD__COLUMN__KIND__EXTENTS, WORDS * 8 - 32, 8);
    right(FEEDD__COLUMN__KIND__VALUES, WORDS * 8 - 16, 8);
    right(FEEDD__COLUMN__KIND__POSITIONS, 48, 8);
    wrong(FEEDD__COLUMN__KIND__EXTENTS, 8, 4, SAMPLES, 2); // the field has 8 bytes
    wrong(FEEDD__COLUMN__KIND__EXTENTS, WORDS * 8 - 24, 8, SAMPLES, 2);
    wrong(FEEDD__COLUMN__KIND__EXTENTS, 9, 8, SAMPLES, 2);
    wrong(FEEDD__COLUMN__KIND__EXTENTS, UINT64_MAX - 7, 8, SAMPLES, 2);
    wrong(FEEDD__COLUMN__KIND__EXTENTS, 8, 8, UINT64_C(1) << 60, 2);
    wrong(FEEDD__COLUMN__KIND__VALUES, WORDS * 8 - 8, 8, SAMPLES, 2);
    wrong(FEEDD__COLUMN__KIND__VALUES, 8, 8, UINT64_C(1) << 61, 2);
    wrong(FEEDD__COLUMN__KIND__POSITIONS, 48, 8, SAMPLES, 6);  // files
    wrong(FEEDD__COLUMN__KIND__DOCUMENTS, 24, 8, SAMPLES, 1);  // more documents than there is room
    wrong(FEEDD__COLUMN__KIND__DOCUMENTS, 112, 8, SAMPLES, 1); // none
}

static void a_ragged_column_has_extents(void **state) {
    (void)state;
    struct error error = {0};
    const struct feed_array ragged = {.ragged = true}, fixed = {.shape = {10}, .bytes = 10 * 8};
    struct files_index index = take(FEEDD__COLUMN__KIND__EXTENTS, 8, 8);
    assert_int_equal(files_index_check(&index, 1, &ragged, SAMPLES, 2, &error), -EPROTO);
    index.columns[1].ragged = true;
    assert_int_equal(files_index_check(&index, 1, &ragged, SAMPLES, 2, &error), 0);
    assert_int_equal(files_index_check(&index, 1, &fixed, SAMPLES, 2, &error), -EPROTO);
    assert_int_equal(files_index_check(&index, 1, &ragged, WORDS, 2, &error), -EPROTO);
    index.columns[1].kind = FEEDD__COLUMN__KIND__WITHIN;
    assert_int_equal(files_index_check(&index, 1, &ragged, SAMPLES, 2, &error), 0);
    index.columns[1].kind = FEEDD__COLUMN__KIND__VALUES;
    assert_int_equal(files_index_check(&index, 1, &ragged, SAMPLES, 2, &error), -EPROTO);
    files_index_free(&index);
}

static void columns_of_unknown_kinds_are_refused(void **state) {
    (void)state;
    struct files_index index = {0};
    struct error error = {0};
    Feedd__Column column = FEEDD__COLUMN__INIT, *list[] = {&column};
    Feedd__Answer page = FEEDD__ANSWER__INIT;
    page.n_columns = 1;
    page.columns = list;
    column.field = FIELDS;
    assert_int_equal(files_index_take(&index, FIELDS, &page, &error), -EPROTO);
    column.field = 0;
    static const int kinds[] = {-1, 5, 9}; // 5 was used by earlier versions
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        column.kind = (Feedd__Column__Kind)kinds[i];
        assert_int_equal(files_index_take(&index, FIELDS, &page, &error), -EPROTO);
    }
    assert_false(index.known);
}

static void samples_are_found(void **state) {
    (void)state;
    struct files_index index = take(FEEDD__COLUMN__KIND__EXTENTS, 8, 8);
    const struct files_extent extent = files_index_extent(&index, &index.columns[1], 1);
    assert_true(extent.offset == 1024 && extent.file == 1 && extent.bytes == 7);
    files_index_free(&index);

    uint8_t values[2];
    index = take(FEEDD__COLUMN__KIND__VALUES, 40, 2);
    assert_int_equal(files_index_values(&index, &index.columns[1], 1, 0, 0, values), 42);
    assert_memory_equal(values, "\3\4", 2);
    files_index_free(&index);
}

static void bytes_within_the_index_are_found(void **state) {
    (void)state;
    uint8_t bytes[5];
    uint64_t offset = 0;
    struct error error = {0};
    struct files_index index = take(FEEDD__COLUMN__KIND__WITHIN, 8, 5);
    const struct files_column *column = &index.columns[1];
    index.words[1] = 40;
    index.words[2] = UINT64_C(3) << 32;
    assert_int_equal(files_index_within(&index, column, 0, bytes, sizeof bytes, &offset, &error), 0);
    assert_memory_equal(bytes, "\1\2\3\11\0", sizeof bytes); // filled up with the pad
    assert_int_equal(offset, 40);
    static const struct {
        uint64_t offset, bytes;
    } outside[] = {{WORDS * 8 - 2, 3}, {WORDS * 8 + 1, 0}, {UINT64_MAX, 3}, {UINT64_MAX - 1, UINT32_MAX}};
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        index.words[1] = outside[i].offset;
        index.words[2] = outside[i].bytes << 32;
        assert_int_equal(files_index_within(&index, column, 0, bytes, sizeof bytes, &offset, &error),
                         -EPROTO);
    }
    files_index_free(&index);
}

// The text begins at word 4: a stem, two rests, and the table, which has one stem.
static void paths_are_found(void **state) {
    (void)state;
    const uint64_t stem = UINT64_C(1) << PATH_REST_BITS;
    struct files_index index = take(FEEDD__COLUMN__KIND__NAMES, 8, 5);
    struct files_column *column = &index.columns[1];
    char path[PATH_MAX];
    column->text = 32;
    memset(&index.words[4], 0, (WORDS - 4) * 8);
    memcpy(&index.words[4],
           "a/x_\0.b\0\0"
           "22\0c/3",
           16);
    index.words[WORDS - 1] = 1;
    index.words[1] = 9 | stem;
    assert_string_equal(files_index_path(&index, column, 0, path), "a/x_22.b");
    index.words[1] = 12;
    assert_string_equal(files_index_path(&index, column, 0, path), "c/3");
    const uint64_t outside[] = {
        8, 12 | 2 * stem, WORDS * 8 - 32, (WORDS * 8 - 32) | stem, UINT64_MAX - 31, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        index.words[1] = outside[i];
        assert_null(files_index_path(&index, column, 0, path));
    }
    index.words[1] = 9 | stem;
    index.words[WORDS - 2] = WORDS * 8 - 32; // where the stem begins
    assert_null(files_index_path(&index, column, 0, path));
    static const uint64_t counts[] = {0, WORDS, PATH_STEMS_MOST, UINT64_MAX, UINT64_C(1) << 56};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        index.words[WORDS - 2] = 0;
        index.words[WORDS - 1] = counts[i];
        assert_null(files_index_path(&index, column, 0, path));
    }
    column->text = WORDS * 8 - 4;
    assert_null(files_index_path(&index, column, 0, path));
    files_index_free(&index);
}

// Windows of four tokens, which begin three tokens apart.
static void windows_are_made(void **state) {
    (void)state;
    int32_t made[4];
    struct files_index index = take(FEEDD__COLUMN__KIND__POSITIONS, 48, 16);
    files_index_values(&index, &index.columns[1], 0, 0, 0, made);
    assert_memory_equal(made, ((int32_t[]){0, 1, 0, 1}), sizeof made);
    files_index_values(&index, &index.columns[1], 1, 0, 1, made);
    assert_memory_equal(made, ((int32_t[]){1, 2, 3, 4}), sizeof made);
    index.columns[1].kind = FEEDD__COLUMN__KIND__DOCUMENTS;
    files_index_values(&index, &index.columns[1], 0, 0, 0, made);
    assert_memory_equal(made, ((int32_t[]){0, 0, 2, 2}), sizeof made); // document 1 is empty
    files_index_values(&index, &index.columns[1], 2, 1, 0, made);
    assert_memory_equal(made, ((int32_t[]){3, 3, 3, 3}), sizeof made);
    files_index_free(&index);
}

// Of a sequence of 20 bytes: 8 of file 1, and 12 of file 0.
static void set_windows(struct files_index *index, uint64_t bytes, uint64_t count, uint64_t second) {
    const uint64_t words[] = {bytes, count, 0, 100, 1, second, 1024, 0};
    index->columns[1].offset = 8;
    memcpy(&index->words[1], words, sizeof words);
}

static void expect_stretch(const struct files_index *index, uint64_t at, uint64_t most, uint32_t file,
                           uint64_t offset, uint32_t bytes) {
    struct error error = {0};
    struct files_extent found;
    assert_int_equal(files_index_stretch(index, &index->columns[1], at, most, &found, &error), 0);
    assert_true(found.file == file && found.offset == offset && found.bytes == bytes);
}

static void windows_across_files_are_found(void **state) {
    (void)state;
    struct error error = {0};
    struct files_extent found;
    struct files_index index = take(FEEDD__COLUMN__KIND__WINDOWS, 8, 8);
    const struct files_column *column = &index.columns[1];
    const struct feed_array array = {.shape = {10}, .bytes = 10 * 8};
    set_windows(&index, 20, 2, 8);
    assert_int_equal(files_index_check(&index, 1, &array, SAMPLES, 2, &error), 0);
    expect_stretch(&index, 0, 8, 1, 100, 8);
    expect_stretch(&index, 6, 8, 1, 106, 2);
    expect_stretch(&index, 8, 6, 0, 1024, 6);
    expect_stretch(&index, 19, 6, 0, 1035, 1);
    assert_int_equal(files_index_stretch(&index, column, 20, 1, &found, &error), -EPROTO);
    assert_int_equal(files_index_stretch(&index, column, UINT64_MAX, 1, &found, &error), -EPROTO);
    set_windows(&index, 20, 2, 30); // beyond the end
    assert_int_equal(files_index_stretch(&index, column, 30, 1, &found, &error), -EPROTO);
    index.words[3] = 5; // the first one does not begin with byte 0
    assert_int_equal(files_index_stretch(&index, column, 4, 1, &found, &error), -EPROTO);
    static const uint64_t counts[] = {0, WORDS, UINT64_MAX / 24 + 1, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        set_windows(&index, 20, counts[i], 8);
        assert_int_equal(files_index_check(&index, 1, &array, SAMPLES, 2, &error), -EPROTO);
    }
    index.columns[1].offset = WORDS * 8 - 8;
    assert_int_equal(files_index_check(&index, 1, &array, SAMPLES, 2, &error), -EPROTO);
    files_index_free(&index);
}

// The documents of the first file are then those of all.
static void documents_of_windows_across_files_are_found(void **state) {
    (void)state;
    int32_t made[4];
    struct error error = {0};
    struct files_index index = take(FEEDD__COLUMN__KIND__POSITIONS, 48, 16);
    const struct feed_array array = {.shape = {10}, .bytes = 10 * 16};
    index.columns[1].across = true;
    assert_int_equal(files_index_check(&index, 1, &array, SAMPLES, 1000, &error), 0);
    files_index_values(&index, &index.columns[1], 1, 1, 0, made);
    assert_memory_equal(made, ((int32_t[]){1, 2, 3, 4}), sizeof made);
    files_index_free(&index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_lie_in_the_index),
        cmocka_unit_test(a_ragged_column_has_extents),
        cmocka_unit_test(columns_of_unknown_kinds_are_refused),
        cmocka_unit_test(samples_are_found),
        cmocka_unit_test(bytes_within_the_index_are_found),
        cmocka_unit_test(paths_are_found),
        cmocka_unit_test(windows_are_made),
        cmocka_unit_test(windows_across_files_are_found),
        cmocka_unit_test(documents_of_windows_across_files_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
