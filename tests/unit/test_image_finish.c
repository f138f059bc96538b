// Finished images compared with one element at a time, for every instruction set that this processor has.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "base/dtype.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/image/finish.h"
#include "daemon/loader/stage/transform_run.h"

#define GUARD 64u

static uint64_t random_state = 5;

static uint32_t random_below(uint32_t end) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % end;
}

static void *filled(size_t bytes) {
    uint8_t *memory = malloc(bytes);
    assert_non_null(memory);
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (uint8_t)random_below(256);
    return memory;
}

// By the definition.
static void finish_slowly(const struct image_finish *finish, const struct image *from, uint8_t *to) {
    uint32_t bytes = finish->element_bytes;
    for (uint32_t y = 0; y < from->height; y++)
        for (uint32_t x = 0; x < from->width; x++)
            for (uint32_t channel = 0; channel < from->channels; channel++) {
                uint32_t column = finish->mirror ? from->width - 1 - x : x;
                uint8_t value = from->pixels[y * from->stride + (size_t)column * from->channels + channel];
                size_t pixel = (size_t)y * from->width + x, pixels = (size_t)from->width * from->height;
                size_t place = finish->planes ? channel * pixels + pixel : pixel * from->channels + channel;
                const uint8_t *table = finish->table;
                size_t entry = (size_t)channel * IMAGE_TABLE_VALUES + value;
                memcpy(to + place * bytes, table ? table + entry * bytes : &value, bytes);
            }
}

static void check(const struct image_finish *finish, const struct image *from) {
    size_t bytes = image_finish_bytes(finish, from), off = random_below(9);
    AUTO_FREE uint8_t *wanted = malloc(bytes);
    AUTO_FREE uint8_t *memory = malloc(off + GUARD + bytes + GUARD);
    assert_true(wanted && memory);
    finish_slowly(finish, from, wanted);
    for (uint32_t set = 0;; set++) {
        memset(memory, 0x5a, off + GUARD + bytes + GUARD);
        uint8_t *slot = memory + off + GUARD;
        const char *name = image_finish_run_with(set, finish, from, slot);
        if (!name) {
            assert_true(set > 0);
            return;
        }
        for (size_t i = 0; i < bytes; i++)
            if (slot[i] != wanted[i])
                fail_msg("%s, %u x %u x %u, %u bytes, planes %d, mirror %d: byte %zu is %u, wanted %u", name,
                         from->width, from->height, from->channels, finish->element_bytes, finish->planes,
                         finish->mirror, i, slot[i], wanted[i]);
        for (size_t i = 0; i < GUARD; i++)
            assert_true(slot[-1 - (ptrdiff_t)i] == 0x5a && slot[bytes + i] == 0x5a);
    }
}

// Every layout and element, in memory of exactly the image's size, with tables of any bits: a different one for each
// channel, and then the same for all.
static void check_all(uint32_t width, uint32_t height, uint32_t channels, size_t gap) {
    struct image image = {.width = width, .height = height, .channels = channels};
    image.stride = (size_t)width * channels + gap;
    AUTO_FREE uint8_t *pixels = filled(image.stride * (height - 1) + (size_t)width * channels);
    image.pixels = pixels;
    for (uint32_t way = 0; way < 4; way++)
        for (uint32_t element = 0; element <= 4; element = element ? element * 2 : 1) {
            struct image_finish finish = {
                .planes = way & 1, .mirror = way & 2, .element_bytes = element ? element : 1};
            size_t table_bytes = (size_t)IMAGE_TABLE_VALUES * finish.element_bytes;
            AUTO_FREE uint8_t *tables = filled(3 * table_bytes + 1);
            finish.table = element ? tables + 1 : NULL;
            check(&finish, &image);
            memcpy(tables + 1 + table_bytes, tables + 1, table_bytes);
            memcpy(tables + 1 + 2 * table_bytes, tables + 1, table_bytes);
            if (element)
                check(&finish, &image);
        }
}

static void every_width(void **state) {
    (void)state;
    for (uint32_t width = 1; width <= 200; width++)
        for (uint32_t channels = 1; channels <= 3; channels += 2)
            check_all(width, 1 + random_below(4), channels, random_below(3) * 5);
}

static void images_larger_than_a_block(void **state) {
    (void)state;
    static const uint32_t sizes[][2] = {{224, 224}, {2047, 3},  {2048, 4}, {6143, 2},
                                        {6145, 2},  {20001, 1}, {1, 9000}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        for (uint32_t channels = 1; channels <= 3; channels += 2)
            check_all(sizes[i][0], sizes[i][1], channels, 0);
}

// All that this processor has are compared above: the fastest ones are not passed over.
static void every_set_is_there(void **state) {
    (void)state;
    uint8_t pixel[3] = {1, 2, 3}, slot[3];
    const struct image image = {pixel, 1, 1, 3, 3};
    const struct image_finish finish = {.element_bytes = 1};
    const char *wanted[3];
    uint32_t sets = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        wanted[sets++] = "avx512";
    if (__builtin_cpu_supports("avx2"))
        wanted[sets++] = "avx2";
#endif
    wanted[sets++] = "plain";
    for (uint32_t set = 0; set < sets; set++)
        assert_string_equal(image_finish_run_with(set, &finish, &image, slot), wanted[set]);
    assert_null(image_finish_run_with(sets, &finish, &image, slot));
}

// A transform that is run on the values 0..255 makes the tables; pixels become what it makes of the whole image.
static void tables_are_made_by_transforms(void **state) {
    (void)state;
    static const char *const texts[] = {
        "scale 1/255, mean 0.485 0.456 0.406, std 0.229 0.224 0.225, cast f16",
        "scale 1/255, mean 0.485 0.456 0.406, std 0.229 0.224 0.225, cast bf16",
        "mean 123.675 116.28 103.53, std 58.395 57.12 57.375",
        "scale 1/255",
    };
    const uint64_t shape[] = {3, 31, 45}, values[] = {3, IMAGE_TABLE_VALUES};
    const size_t pixels = (size_t)(shape[1] * shape[2]);
    uint8_t all[3 * IMAGE_TABLE_VALUES], tables[3 * IMAGE_TABLE_VALUES * 4];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)i;
    AUTO_FREE uint8_t *planes = filled(3 * pixels);
    AUTO_FREE uint8_t *wanted = malloc(3 * pixels * 4);
    AUTO_FREE uint8_t *found = malloc(3 * pixels * 4);
    AUTO_FREE uint8_t *mixed = malloc(3 * pixels);
    assert_true(wanted && found && mixed);
    for (size_t i = 0; i < 3 * pixels; i++)
        mixed[i % pixels * 3 + i / pixels] = planes[i];
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct transform transform, of_values;
        assert_int_equal(transform_parse(texts[i], &transform, NULL), 0);
        of_values = transform;
        assert_int_equal(transform_fit(&transform, DTYPE_U8, 3, shape, NULL), 0);
        assert_int_equal(transform_fit(&of_values, DTYPE_U8, 2, values, NULL), 0);
        transform_run(&transform, planes, wanted, 1);
        transform_run(&of_values, all, tables, 1);
        struct image image = {mixed, (uint32_t)shape[2], (uint32_t)shape[1], 3, (size_t)shape[2] * 3};
        struct image_finish finish = {tables, (uint32_t)dtype_bytes(transform.target), true, false};
        image_finish_run(&finish, &image, found);
        assert_memory_equal(found, wanted, image_finish_bytes(&finish, &image));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_width),
        cmocka_unit_test(images_larger_than_a_block),
        cmocka_unit_test(every_set_is_there),
        cmocka_unit_test(tables_are_made_by_transforms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
