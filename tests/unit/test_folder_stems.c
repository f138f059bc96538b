// Paths in the text of an index: what was put in comes out, whatever the names, and common ones take little room.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/path_text.h"
#include "base/sizes.h"
#include "daemon/source/folder/folder_stems.h"

#define ENTRIES 2u // per row, all for one path

struct row {
    struct index_extent extents[ENTRIES];
};

struct world {
    struct folder_text paths, text;
    struct index_rows rows;
};

static void add(struct world *world, const char *path) {
    struct row row = {0};
    assert_int_equal(folder_text_add_string(&world->paths, path, strlen(path), &row.extents[0].offset), 0);
    row.extents[1].offset = row.extents[0].offset;
    assert_true(index_rows_add(&world->rows, &row, sizeof row));
}

static const struct row *row_of(const struct world *world, uint64_t i) {
    return (const struct row *)(const void *)world->rows.rows + i;
}

// Puts all paths into the text, and compares what comes out. Returns the bytes per path.
static double put(struct world *world, uint64_t *stems) {
    static const uint32_t entries[ENTRIES] = {0, sizeof(struct index_extent)};
    AUTO_FREE uint64_t *were = calloc(world->rows.count + 1, sizeof *were);
    for (uint64_t i = 0; i < world->rows.count; i++)
        were[i] = row_of(world, i)->extents[0].offset;
    assert_int_equal(
        folder_stems_put(&world->paths, &world->rows, sizeof(struct row), entries, ENTRIES, &world->text), 0);
    const struct path_text text = {(const uint8_t *)world->text.text, world->text.bytes};
    assert_true(path_text_check(&text) && text.bytes % 8 == 0);
    *stems = path_text_stems(&text);
    for (uint64_t i = 0; i < world->rows.count; i++) {
        const char *wanted = world->paths.text + were[i];
        for (uint32_t k = 0; k < ENTRIES; k++) {
            char path[PATH_MAX];
            const uint64_t where = row_of(world, i)->extents[k].offset;
            assert_true(path_text_has(&text, *stems, where));
            assert_int_equal(path_text_get(&text, where, path), strlen(wanted));
            assert_string_equal(path, wanted);
        }
    }
    const double bytes = (double)world->text.bytes / (double)world->rows.count;
    index_rows_release(&world->rows);
    folder_text_release(&world->paths);
    folder_text_release(&world->text);
    return bytes;
}

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// As in the training and validation sets of ImageNet, in COCO, and in Places365.
static void name_usually(int form, unsigned folder, unsigned number, char path[64]) {
    if (form == 0)
        snprintf(path, 64, "n%08u/n%08u_%u.JPEG", folder, folder, number);
    else if (form == 1)
        snprintf(path, 64, "%u/ILSVRC2012_val_%08u.JPEG", folder, number);
    else if (form == 2)
        snprintf(path, 64, "train%u/%012u.jpg", folder, number);
    else
        snprintf(path, 64, "c%u/%08u.png", folder, number);
}

// With struct index_extent, 24 bytes in all.
static void test_usual_names_take_eight_bytes(void **state) {
    (void)state;
    for (int form = 0; form < 4; form++) {
        struct world world = {0};
        uint32_t dice = 1;
        uint64_t stems;
        for (unsigned folder = 0; folder < 20; folder++)
            for (unsigned i = 0, number = 1; i < 1300; i++, number += 1 + next(&dice) % 15) {
                char path[64];
                name_usually(form, 1440764 + folder, number, path);
                add(&world, path);
            }
        const double bytes = put(&world, &stems);
        if (bytes > 8)
            fail_msg("form %d: %.2f bytes per path, and %u stems", form, bytes, (unsigned)stems);
        assert_true(stems >= 20 && stems <= 60);
    }
}

// As a CSV file may list them.
static void test_any_order(void **state) {
    (void)state;
    struct world world = {0};
    uint32_t dice = 1;
    uint64_t stems;
    for (uint32_t i = 0; i < 50000; i++) {
        char path[64];
        const uint32_t folder = next(&dice) % 100;
        snprintf(path, sizeof path, "n%08u/n%08u_%u.JPEG", folder, folder, next(&dice) % 20000);
        add(&world, path);
    }
    assert_true(put(&world, &stems) < 8);
    assert_true(stems < 200);
}

static void test_one_odd_name_spoils_little(void **state) {
    (void)state;
    struct world world = {0};
    uint64_t stems;
    for (unsigned i = 0; i < 20000; i++) {
        char path[64];
        snprintf(path, sizeof path, i == 5000 ? "train/a%08u.jpg" : "train/a_long_beginning_%08u.jpg", i);
        add(&world, path);
    }
    assert_true(put(&world, &stems) < 10);
}

static void test_names_of_all_kinds(void **state) {
    (void)state;
    static const char *const paths[] = {"a",          "a",        "a/b",      "a/b",   "a/",      ".",
                                        "..",         "a.b",      "a.b",      "a/b.c", "a/b.c.c", "a/b.c",
                                        "/",          "//",       "x.y/z",    "x.y/z", "x.y/z.y", "aaaa/aaaa",
                                        "aaaa/aaaaa", "aaaa/aaa", "\xff\xfe", "\xff",  "a/.",     "a/.."};
    struct world world = {0};
    uint64_t stems;
    char longest[PATH_MAX];
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        add(&world, paths[i]);
    for (int i = 0; i < 20; i++) {
        memset(longest, 'a' + i % 3, sizeof longest);
        longest[PATH_MAX - 1 - i % 2] = '\0';
        add(&world, longest);
    }
    put(&world, &stems);
    uint32_t dice = 3;
    for (int round = 0; round < 50; round++) { // of few different letters, so that much is shared by chance
        for (uint32_t i = next(&dice) % 300 + 1; i > 0; i--) {
            char path[12] = "";
            for (uint32_t k = next(&dice) % 10 + 1, at = 0; k > 0; k--)
                path[at++] = "ab/."[next(&dice) % 4];
            add(&world, path);
        }
        put(&world, &stems);
    }
}

static void test_no_paths(void **state) {
    (void)state;
    struct folder_text text = {0};
    uint64_t at;
    assert_int_equal(folder_text_add_string(&text, "abc", 3, &at), 0);
    assert_int_equal(folder_stems_none(&text), 0);
    const struct path_text read = {(const uint8_t *)text.text, text.bytes};
    char path[PATH_MAX];
    assert_true(read.bytes == 16 && path_text_check(&read) && path_text_stems(&read) == 0);
    assert_int_equal(path_text_get(&read, 0, path), 3);
    assert_string_equal(path, "abc");
    folder_text_release(&text);
}

// Text that no daemon wrote. It is exactly as long as its memory, so that a sanitizer sees any read beyond it.
static void test_texts_that_lie(void **state) {
    (void)state;
    uint32_t dice = 5;
    char path[PATH_MAX];
    for (int round = 0; round < 20000; round++) {
        const size_t bytes = next(&dice) % 9 * 8;
        AUTO_FREE uint8_t *memory = malloc(bytes + 1);
        AUTO_FREE uint8_t *exact = malloc(bytes ? bytes : 1);
        for (size_t i = 0; i < bytes; i++)
            exact[i] = next(&dice) % 3 ? 0 : (uint8_t)(next(&dice) % 70);
        const struct path_text text = {exact, bytes};
        const uint64_t stems = path_text_stems(&text);
        for (uint64_t where = 0; where < 70; where++)
            for (uint64_t stem = 0; stem < 4; stem++) {
                const size_t length = path_text_get(&text, where | stem << PATH_REST_BITS, path);
                assert_int_equal(strlen(path), length);
                assert_true(!length || stem <= stems);
            }
        path_text_check(&text);
    }
}

// A path whose parts are too long together counts as none.
static void test_too_long_a_path(void **state) {
    (void)state;
    const size_t half = PATH_MAX / 2, bytes = 2 * half + 24;
    AUTO_FREE uint8_t *text = calloc(1, bytes);
    const uint64_t one = 1;
    char path[PATH_MAX];
    memset(text, 'x', half - 1);
    memset(text + half + 1, 'y', half - 1);
    memcpy(text + bytes - 8, &one, sizeof one);
    const struct path_text read = {text, bytes};
    assert_int_equal(path_text_get(&read, one << PATH_REST_BITS | (half + 1), path), 2 * (half - 1));
    text[half - 1] = 'x'; // the first part is a byte longer, and there is no other
    text[2 * half] = 'y';
    assert_int_equal(path_text_get(&read, one << PATH_REST_BITS | (half + 1), path), 0);
    assert_string_equal(path, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_names_take_eight_bytes),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_one_odd_name_spoils_little),
        cmocka_unit_test(test_names_of_all_kinds),
        cmocka_unit_test(test_no_paths),
        cmocka_unit_test(test_texts_that_lie),
        cmocka_unit_test(test_too_long_a_path),
    };
    return cmocka_run_group_tests_name("folder_stems", tests, NULL, NULL);
}
