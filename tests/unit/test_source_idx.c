#include "base/scope.h"
#include "tests/unit/source_fixture.h"

#define KEYS "format = idx\nfield.image = image.idx\nfield.label = label.idx\n"

// An idx file of these sizes with `bytes` bytes of data.
static void write_idx(const char *name, uint8_t type, uint8_t dimensions, const uint32_t *shape,
                      size_t bytes) {
    AUTO_FREE uint8_t *file = malloc(4 + 4 * 255 + bytes);
    assert_non_null(file);
    memcpy(file, ((uint8_t[]){0, 0, type, dimensions}), 4);
    for (uint32_t i = 0; i < dimensions; i++)
        for (uint32_t j = 0; j < 4; j++)
            file[4 + 4 * i + j] = (uint8_t)(shape[i] >> (24 - 8 * j));
    size_t header = 4 + 4 * (size_t)dimensions;
    for (size_t i = 0; i < bytes; i++)
        file[header + i] = (uint8_t)(i * 7);
    write_file(name, file, header + bytes);
}

#define SHAPE(...)                                                                                           \
    (uint8_t)(sizeof((uint32_t[]){__VA_ARGS__}) / 4), (uint32_t[]) {                                         \
        __VA_ARGS__                                                                                          \
    }

static void test_good(void **state) {
    (void)state;
    write_idx("image.idx", 0x08, SHAPE(5, 3, 4), 60);
    write_idx("label.idx", 0x09, SHAPE(5), 5);
    struct dataset *dataset = open_good(KEYS);
    const struct dataset_layout *layout = dataset->layout;
    assert_int_equal(layout->samples, 5);
    assert_int_equal(layout->field_count, 2);
    assert_int_equal(layout->stream_count, 2);
    assert_string_equal(layout->fields[0].name, "image");
    assert_int_equal(layout->fields[0].dtype, DTYPE_U8);
    assert_int_equal(layout->fields[0].dimensions, 2);
    assert_int_equal(layout->fields[0].shape[0], 3);
    assert_int_equal(layout->fields[0].shape[1], 4);
    assert_int_equal(layout->fields[0].sample_bytes, 12);
    assert_int_equal(layout->fields[1].dtype, DTYPE_I8);
    assert_int_equal(layout->fields[1].dimensions, 0);
    assert_int_equal(layout->streams[1].first_file, 1);
    assert_int_equal(layout->streams[1].extents[0].field, 1);
    assert_int_equal(layout->files[0].data_offset, 16);
    assert_int_equal(layout->files[1].data_offset, 8);
    uint8_t image[12], label;
    read_sample(dataset, 0, 4, image);
    assert_int_equal(image[0], (uint8_t)(48 * 7));
    read_sample(dataset, 1, 3, &label);
    assert_int_equal(label, 21);
    dataset_unref(dataset);
}

static void test_several_files(void **state) {
    (void)state;
    write_idx("part2.idx", 0x08, SHAPE(2, 3), 6);
    write_idx("part1.idx", 0x08, SHAPE(4, 3), 12);
    struct dataset *dataset = open_good("format = idx\nfield.a = part*.idx\n");
    assert_int_equal(dataset->layout->samples, 6);
    assert_int_equal(dataset->layout->stream_count, 1);
    assert_int_equal(dataset->layout->files[1].first_sample, 4);
    uint8_t data[3];
    read_sample(dataset, 0, 5, data);
    assert_memory_equal(data, ((uint8_t[]){21, 28, 35}), 3);
    dataset_unref(dataset);
    write_idx("part2.idx", 0x08, SHAPE(2, 4), 8);
    expect_refusal("format = idx\nfield.a = part*.idx\n", -EINVAL,
                   "/part2.idx: found samples of u8[4], wanted u8[3] as in /");
    write_idx("part2.idx", 0x09, SHAPE(2, 3), 6);
    expect_refusal("format = idx\nfield.a = part*.idx\n", -EINVAL,
                   "/part2.idx: found samples of i8[3], wanted u8[3] as in /");
    write_idx("part2.idx", 0x08, SHAPE(2, 3, 1), 6);
    expect_refusal("format = idx\nfield.a = part*.idx\n", -EINVAL, "found samples of u8[3,1], wanted u8[3]");
    expect_refusal("format = idx\nfield.a = pert*.idx\n", -ENOENT, "field.a: found no file that matches");
}

static void test_unequal_fields(void **state) {
    (void)state;
    write_idx("image.idx", 0x08, SHAPE(5, 3, 4), 60);
    write_idx("label.idx", 0x08, SHAPE(6), 6);
    expect_refusal(KEYS, -EINVAL,
                   ":4: [dataset test] field.label: found 6 samples, wanted 5 as in field.image");
}

#define ONE "format = idx\nfield.a = one.idx\n"

static void expect_shape(uint8_t dimensions, const uint32_t *shape, size_t bytes, int code,
                         const char *part) {
    write_idx("one.idx", 0x08, dimensions, shape, bytes);
    expect_refusal(ONE, code, part);
}

static void test_lying_headers(void **state) {
    (void)state;
    expect_shape(SHAPE(5, 3), 14, -EINVAL, "field.a: /");
    expect_shape(SHAPE(5, 3), 14, -EINVAL,
                 "/one.idx: found 14 bytes of data, wanted 15, because the header says u8[5,3]");
    expect_shape(SHAPE(5, 3), 16, -EINVAL, "found 16 bytes of data, wanted 15");
    expect_shape(SHAPE(5, 3), 0, -EINVAL, "found 0 bytes of data, wanted 15");
    expect_shape(SHAPE(0), 0, -EINVAL, "found u8[0], wanted at least one sample of one byte");
    expect_shape(SHAPE(3, 0), 0, -EINVAL, "found u8[3,0], wanted at least one sample");
    expect_shape(SHAPE(0xffffffff, 0xffffffff, 0xffffffff), 10, -EOVERFLOW,
                 "which is more than 2^64 bytes, and 10 bytes of data");
    expect_shape(SHAPE(0x80000000, 0x80000000, 4), 0, -EOVERFLOW,
                 "u8[2147483648,2147483648,4]"); // 2^64 would be 0
    expect_shape(SHAPE(0xffffffff, 0xffffffff), 10, -EINVAL, "wanted 18446744065119617025, because");
    expect_shape(SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1, 1), 1, -EINVAL,
                 "found an array of 10 dimensions, wanted 1 to 9");
    expect_shape(0, NULL, 1, -EINVAL, "found an array of 0 dimensions, wanted 1 to 9");
    write_idx("one.idx", 0x08, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), 1);
    dataset_unref(open_good(ONE));
}

static void expect_bytes(const char *bytes, size_t count, int code, const char *part) {
    write_file("one.idx", bytes, count);
    expect_refusal(ONE, code, part);
}

static void test_bad_headers(void **state) {
    (void)state;
    expect_bytes("", 0, -EINVAL, "/one.idx: found an empty file");
    expect_bytes("\0\0\x08", 3, -ENODATA, "found the end of the file at byte 3, wanted an idx header");
    expect_bytes("\0\0\x08\x03\0\0\0\1\0\0", 10, -ENODATA,
                 "found the end of the file at byte 10, wanted an idx header");
    expect_bytes("\0\0\x08\xff\0\0\0\1\0\0", 10, -EINVAL, "found an array of 255 dimensions");
    expect_bytes("\0\1\x08\1\0\0\0\1\0", 9, -EINVAL, "found 00 01 08 01 at its start, wanted an idx header");
    expect_bytes("\1\0\x08\1\0\0\0\1\0", 9, -EINVAL, "found 01 00 08 01 at its start");
    expect_bytes("\0\0\x0a\1\0\0\0\1\0", 9, -EINVAL, "found idx type 0x0a, wanted 0x08 (u8) or 0x09 (i8)");
    expect_bytes("\0\0\x00\1\0\0\0\1\0", 9, -EINVAL, "found idx type 0x00");
    expect_bytes("\x1f\x8b\x08\x08\0\0\0\1\0", 9, -EINVAL,
                 "found gzip data, wanted an idx file; unpack it first");
    expect_bytes("PK\3\4\0\0\0\1\0", 9, -EINVAL, "found zip data");
    static const char *const names[] = {"i16", "i32", "f32", "f64"};
    for (uint8_t i = 0; i < 4; i++) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "found big-endian %s (idx type 0x%02x), wanted u8 or i8", names[i],
                 0x0b + i);
        write_idx("one.idx", (uint8_t)(0x0b + i), SHAPE(1), 8);
        expect_refusal(ONE, -ENOTSUP, wanted);
    }
}

#define PACKAGE "/usr/share/datasets/fashion-mnist/"

static bool unpack(const char *name) {
    char command[1024];
    snprintf(command, sizeof command, "gunzip -c " PACKAGE "%s.gz > %s/%s", name, folder, name);
    return access(PACKAGE, R_OK) == 0 && system(command) == 0; // NOLINT(cert-env33-c): fixed text
}

static void test_fashion_mnist(void **state) {
    (void)state;
    if (!unpack("train-images-idx3-ubyte") || !unpack("train-labels-idx1-ubyte")) {
        print_message("skip: package dataset-fashion-mnist is not installed\n");
        skip();
    }
    struct dataset *dataset = open_good("format = idx\nfield.image = train-images-idx3-ubyte\n"
                                        "field.label = train-labels-idx1-ubyte\n");
    assert_int_equal(dataset->layout->samples, 60000);
    assert_int_equal(dataset->layout->fields[0].sample_bytes, 784);
    assert_int_equal(dataset->layout->fields[0].shape[1], 28);
    uint32_t counts[10] = {0};
    for (uint64_t i = 0; i < 60000; i++) {
        uint8_t label = 255;
        read_sample(dataset, 1, i, &label);
        assert_in_range(label, 0, 9);
        counts[label]++;
    }
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(counts[i], 6000);
    dataset_unref(dataset);
    expect_refusal("format = idx\nfield.a = " PACKAGE "train-labels-idx1-ubyte.gz\n", -EINVAL,
                   "found gzip data");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),           cmocka_unit_test(test_several_files),
        cmocka_unit_test(test_unequal_fields), cmocka_unit_test(test_lying_headers),
        cmocka_unit_test(test_bad_headers),    cmocka_unit_test(test_fashion_mnist),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
