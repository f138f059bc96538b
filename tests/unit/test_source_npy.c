#include "base/error.h"
#include "base/sizes.h"
#include "tests/unit/source_fixture.h"

#define ONE "format = npy\nfield.a = one.npy\n"

// An npy file with this header text, padded as NumPy does, and `bytes` bytes of data.
static void write_npy(const char *name, uint8_t version, const char *header, size_t bytes) {
    size_t prefix = version == 1 ? 10 : 12;
    size_t text = align_up(prefix + strlen(header) + 1, 64) - prefix;
    AUTO_FREE uint8_t *file = malloc(prefix + text + bytes);
    assert_non_null(file);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = version;
    file[7] = 0;
    for (size_t i = 8; i < prefix; i++)
        file[i] = (uint8_t)(text >> (8 * (i - 8)));
    memset(file + prefix, ' ', text);
    memcpy(file + prefix, header, strlen(header));
    file[prefix + text - 1] = '\n';
    for (size_t i = 0; i < bytes; i++)
        file[prefix + text + i] = (uint8_t)(i * 11);
    write_file(name, file, prefix + text + bytes);
}

static struct dataset *open_header(uint8_t version, const char *header, size_t bytes) {
    write_npy("one.npy", version, header, bytes);
    return open_good(ONE);
}

static void refuse_header(const char *header, size_t bytes, int code, const char *part) {
    write_npy("one.npy", 1, header, bytes);
    expect_refusal(ONE, code, part);
}

static void test_good(void **state) {
    (void)state;
    for (uint8_t version = 1; version <= 3; version++) {
        struct dataset *dataset =
            open_header(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 2, 3), }", 144);
        const struct dataset_layout *layout = dataset->layout;
        assert_int_equal(layout->samples, 6);
        assert_int_equal(layout->fields[0].dtype, DTYPE_F32);
        assert_int_equal(layout->fields[0].dimensions, 2);
        assert_int_equal(layout->fields[0].shape[0], 2);
        assert_int_equal(layout->fields[0].shape[1], 3);
        assert_int_equal(layout->fields[0].sample_bytes, 24);
        assert_int_equal(layout->files[0].data_offset, 128);
        uint8_t sample[24];
        read_sample(dataset, 0, 5, sample);
        assert_int_equal(sample[0], (uint8_t)(120 * 11));
        dataset_unref(dataset);
    }
}

static void test_dtypes(void **state) {
    (void)state;
    static const struct {
        const char *descr;
        uint32_t dtype;
    } dtypes[] = {{"|b1", DTYPE_BOOL}, {"|u1", DTYPE_U8},  {"|i1", DTYPE_I8},   {"<u1", DTYPE_U8},
                  {"<u2", DTYPE_U16},  {"<i2", DTYPE_I16}, {"<u4", DTYPE_U32},  {"<i4", DTYPE_I32},
                  {"<u8", DTYPE_U64},  {"<i8", DTYPE_I64}, {"<f2", DTYPE_F16},  {"<f4", DTYPE_F32},
                  {"<f8", DTYPE_F64},  {"<c8", DTYPE_C64}, {"<c16", DTYPE_C128}};
    for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
        char header[128];
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }",
                 dtypes[i].descr);
        struct dataset *dataset = open_header(1, header, 3 * dtype_bytes(dtypes[i].dtype));
        assert_int_equal(dataset->layout->fields[0].dtype, dtypes[i].dtype);
        assert_int_equal(dataset->layout->fields[0].dimensions, 0);
        assert_int_equal(dataset->layout->samples, 3);
        dataset_unref(dataset);
    }
}

// Any writer's spelling of the dictionary, not only NumPy's.
static void test_spellings(void **state) {
    (void)state;
    static const char *const headers[] = {
        "{'descr':'<i2','fortran_order':False,'shape':(2,3)}",
        "{ \"shape\" : ( 2 , 3 , ) , \"fortran_order\" : False , \"descr\" : \"<i2\" }",
        " \t{'fortran_order': False,\n 'shape': (2,\n3), 'descr': '<i2',\n}\n",
        "{'shape': (2, 3,), 'descr': '<i2', 'fortran_order': False, }                       ",
    };
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        struct dataset *dataset = open_header(1, headers[i], 12);
        assert_int_equal(dataset->layout->samples, 2);
        assert_int_equal(dataset->layout->fields[0].shape[0], 3);
        dataset_unref(dataset);
    }
    // One dimension lies the same in both orders.
    dataset_unref(open_header(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (3,), }", 3));
    dataset_unref(
        open_header(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 1));
}

static void test_unreadable_headers(void **state) {
    (void)state;
    static const char *const headers[] = {
        "",
        "{",
        "{}",
        "[]",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3)",
        "{'descr': '<i2', 'fortran_order': False}",
        "{'descr': '<i2', 'shape': (2, 3)}",
        "{'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3)} x",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), 'extra': 1}",
        "{'descr': '<i2', 'descr': '<i2', 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<i2' 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<i2, 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': i2, 'fortran_order': False, 'shape': (2, 3)}",
        "{'descr': '<i2', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': '<i2', 'fortran_order': false, 'shape': (2, 3)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': [2, 3]}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': 6}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2 3)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2,, 3)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (-2, 3)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2.0, 3)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (18446744073709551616, 3)}",
        "{'descr': '<aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'fortran_order': False, 'shape': (2,)}",
        "{'a key that is much longer than any known': '<i2', 'fortran_order': False, 'shape': (2,)}",
    };
    for (size_t i = 0; i < COUNT_OF(headers); i++)
        refuse_header(headers[i], 12, -EINVAL, "/one.npy: found an npy header that cannot be read (\"");
}

#define WITH_DTYPE(descr) "{'descr': " descr ", 'fortran_order': False, 'shape': (2, 3), }"
#define WITH_SHAPE(shape) "{'descr': '<f4', 'fortran_order': False, 'shape': " shape ", }"

// The message quotes the header, which must not start new lines or control a terminal.
static void test_control_characters(void **state) {
    (void)state;
    refuse_header("\033]0;title\a{'descr':\n", 12, -EINVAL, "(\"\\x1b]0;title\\x07{'descr':\\x0a");
    refuse_header(WITH_DTYPE("'\033[2J'"), 12, -ENOTSUP, "found dtype \"\\x1b[2J\", wanted |b1");
}

static void test_refused_dtypes(void **state) {
    (void)state;
    static const char *const refused[] = {"<O", "<U5", "|S3", "<M8[ns]", "|V2", "<f16", "<c32", "=f4", "f4",
                                          "",   "<",   "|f4", "<f3",     "<f",  "!f4",  "<b8",  ">b2", "<F4"};
    refuse_header(WITH_DTYPE("'>f4'"), 24, -ENOTSUP,
                  "found big-endian dtype \">f4\", wanted little-endian; save array.astype(\"<f4\")");
    refuse_header(WITH_DTYPE("[('a', '<f4'), ('b', '|u1')]"), 30, -ENOTSUP,
                  "found a structured dtype, wanted one number type");
    refuse_header(WITH_DTYPE("'|O'"), 16, -ENOTSUP, "found an array of Python objects, wanted numbers");
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        char header[128], wanted[128];
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (2,), }",
                 refused[i]);
        snprintf(wanted, sizeof wanted, "found dtype \"%s\", wanted |b1", refused[i]);
        refuse_header(header, 12, -ENOTSUP, wanted);
    }
}

static void test_refused_shapes(void **state) {
    (void)state;
    refuse_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", 24, -ENOTSUP,
                  "found fortran_order True, wanted False");
    refuse_header(WITH_SHAPE("()"), 4, -EINVAL, "found an array of 0 dimensions, wanted 1 to 9");
    refuse_header(WITH_SHAPE("(1,1,1,1,1,1,1,1,1,1)"), 4, -EINVAL,
                  "found an array of 10 dimensions, wanted 1 to 9");
    refuse_header(WITH_SHAPE("(0,)"), 4, -EINVAL, "found f32[0], wanted at least one sample");
    refuse_header(WITH_SHAPE("(2, 0)"), 0, -EINVAL, "found f32[2,0], wanted at least one sample");
    refuse_header(WITH_SHAPE("(2, 3)"), 23, -EINVAL,
                  "/one.npy: found 23 bytes of data, wanted 24, because the header says f32[2,3]");
    refuse_header(WITH_SHAPE("(2, 3)"), 25, -EINVAL, "found 25 bytes of data, wanted 24");
    refuse_header(WITH_SHAPE("(2, 3)"), 0, -EINVAL, "found 0 bytes of data, wanted 24");
    refuse_header(WITH_SHAPE("(4611686018427387904,)"), 0, -EOVERFLOW,
                  "which is more than 2^64 bytes"); // 0 if it wraps
    refuse_header(WITH_SHAPE("(4611686018427387905,)"), 4, -EOVERFLOW,
                  "which is more than 2^64 bytes"); // 4 if it wraps
    refuse_header(WITH_SHAPE("(4294967296, 4294967296, 1)"), 4, -EOVERFLOW, "f32[4294967296,4294967296,1]");
    refuse_header(WITH_SHAPE("(2, 18446744073709551615)"), 4, -EOVERFLOW, "which is more than 2^64 bytes");
}

static void refuse_bytes(const void *bytes, size_t count, int code, const char *part) {
    write_file("one.npy", bytes, count);
    expect_refusal(ONE, code, part);
}

static void test_cut_and_foreign_files(void **state) {
    (void)state;
    static const char nul[] =
        "\x93NUMPY\1\0\x3b\0{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }\0\n.";
    refuse_bytes(nul, sizeof nul - 1, -EINVAL, "found an npy header that cannot be read");
    char long_header[128] = "\x93NUMPY\1\0\xff\xff";
    refuse_bytes("\x93NUMPY\1\0\x76", 9, -ENODATA,
                 "found the end of the file at byte 9, wanted an npy header");
    refuse_bytes("\x93NUMPY\2\0\x76\0\0", 11, -ENODATA,
                 "found the end of the file at byte 11, wanted an npy header");
    refuse_bytes("\x93NUMPY\1\0\x76\0{'descr'", 18, -ENODATA,
                 "found the end of the file at byte 18, wanted an npy header");
    refuse_bytes(long_header, sizeof long_header, -ENODATA, "wanted an npy header: 65535 bytes at offset 10");
    refuse_bytes("\x93NUMPY\2\0\xff\xff\xff\xff...", 15, -EINVAL,
                 "found an npy header of 4294967295 bytes, wanted at most");
    refuse_bytes("\x93NUMPY\4\0\x76\0\0\0...", 15, -ENOTSUP, "found npy version 4.0, wanted 1.0, 2.0 or 3.0");
    refuse_bytes("\x93NUMPY\0\1\x76\0\0\0...", 15, -ENOTSUP, "found npy version 0.1");
    refuse_bytes("\x93NUMPY\1\1\x76\0\0\0...", 15, -ENOTSUP, "found npy version 1.1");
    refuse_bytes("\x93NUMPI\1\0\x76\0\0\0...", 15, -EINVAL, "found no npy header");
    refuse_bytes("PK\3\4-------------", 15, -EINVAL,
                 "found a zip or npz file, wanted npy; save each of its arrays with numpy.save()");
    refuse_bytes("\x1f\x8b-------------", 15, -EINVAL, "found gzip data");
    refuse_bytes("\x93NUMPY\1\0\4\0{}\0\n", 14, -EINVAL, "found an npy header that cannot be read (\"{}\")");
    refuse_bytes("", 0, -EINVAL, "found an empty file");
    // Cut at any byte, a good file is refused.
    write_npy("one.npy", 1, WITH_SHAPE("(2, 3)"), 24);
    for (off_t bytes = 128 + 23; bytes >= 0; bytes--) {
        assert_int_equal(truncate(path_in_folder("one.npy"), bytes), 0);
        struct dataset *dataset;
        struct error error;
        assert_int_not_equal(open_keys(ONE, &dataset, &error), 0);
        assert_non_null(strstr(error.text, "/one.npy: found "));
    }
}

static void test_fields(void **state) {
    (void)state;
    write_npy("x1.npy", 1, WITH_SHAPE("(4, 3)"), 48);
    write_npy("x2.npy", 3, WITH_SHAPE("(1, 3)"), 12);
    write_npy("y.npy", 2, "{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }", 40);
    struct dataset *dataset = open_good("format = npy\nfield.x = x*.npy\nfield.y = y.npy\n");
    assert_int_equal(dataset->layout->samples, 5);
    assert_int_equal(dataset->layout->stream_count, 2);
    assert_int_equal(dataset->layout->streams[1].first_file, 2);
    assert_int_equal(dataset->layout->files[2].first_sample, 0);
    uint8_t data[12] = {0};
    read_sample(dataset, 0, 4, data); // the one sample of x2.npy
    assert_int_equal(data[1], 11);
    read_sample(dataset, 1, 4, data);
    assert_int_equal(data[0], (uint8_t)(32 * 11));
    dataset_unref(dataset);
    expect_refusal("format = npy\nfield.y = y.npy\nfield.x = x1.npy\n", -EINVAL,
                   ":4: [dataset test] field.x: found 4 samples, wanted 5 as in field.y");
    write_npy("x2.npy", 1, WITH_SHAPE("(1, 2)"), 8);
    expect_refusal("format = npy\nfield.x = x*.npy\n", -EINVAL,
                   "/x2.npy: found samples of f32[2], wanted f32[3] as in /");
}

// Sparse files: nothing of their 2 GiB is on the disk.
static void write_sparse(const char *name, const char *header, off_t bytes) {
    write_npy(name, 1, header, 0);
    struct stat status;
    assert_int_equal(stat(path_in_folder(name), &status), 0);
    assert_int_equal(truncate(path_in_folder(name), status.st_size + bytes), 0);
}

static void test_large_samples(void **state) {
    (void)state;
    write_sparse("one.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1073741825), }",
                 1073741825);
    expect_refusal(ONE, -EINVAL, "found samples of u8[1073741825], wanted from 1 byte to 1 GiB each");
    write_sparse("one.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1073741824), }",
                 2147483648);
    dataset_unref(open_good(ONE));
    expect_refusal(
        "format = npy\nfield.a = one.npy\nfield.b = one.npy\n", -EINVAL,
        "field.NAME: found samples of 2147483648 bytes in all fields together, wanted at most 1 GiB");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_unreadable_headers),
        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_refused_dtypes),
        cmocka_unit_test(test_refused_shapes),
        cmocka_unit_test(test_cut_and_foreign_files),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_large_samples),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
