#include "base/scope.h"
#include "base/sizes.h"
#include "tests/unit/source_fixture.h"

#define TOKENS(length) "format = tokens\npath = tokens*.bin\ndtype = u16\nlength = " #length "\n"

// Tokens first, first + 1, ... after a header of `header` bytes.
static void write_tokens(const char *name, uint16_t first, uint32_t count, uint32_t header) {
    AUTO_FREE uint8_t *data = calloc(1, header + 2 * count + 1);
    assert_non_null(data);
    for (uint32_t i = 0; i < count; i++) {
        uint16_t token = (uint16_t)(first + i);
        memcpy(data + header + 2 * i, &token, sizeof token);
    }
    write_file(name, data, header + 2 * count);
}

static void remove_tokens(void) {
    remove(path_in_folder("tokens1.bin"));
    remove(path_in_folder("tokens2.bin"));
}

static void test_windows(void **state) {
    (void)state;
    write_tokens("tokens1.bin", 100, 13, 0); // 3 windows of 4+1: 100..104, 104..108, 108..112
    write_tokens("tokens2.bin", 500, 8, 0);  // 1 window: 500..504; 505..507 are too few for another
    struct dataset *dataset = open_good(TOKENS(4));
    const struct dataset_layout *layout = dataset->layout;
    assert_int_equal(layout->samples, 4);
    assert_int_equal(layout->field_count, 1);
    assert_string_equal(layout->fields[0].name, "tokens");
    assert_int_equal(layout->fields[0].dtype, DTYPE_U16);
    assert_int_equal(layout->fields[0].dimensions, 1);
    assert_int_equal(layout->fields[0].shape[0], 5);
    assert_int_equal(layout->fields[0].sample_bytes, 10);
    assert_int_equal(layout->streams[0].record_bytes, 8);
    assert_int_equal(layout->streams[0].extents[0].bytes, 10);
    static const uint16_t firsts[] = {100, 104, 108, 500};
    for (uint64_t i = 0; i < 4; i++) {
        uint16_t tokens[5];
        read_sample(dataset, 0, i, tokens);
        for (uint16_t j = 0; j < 5; j++)
            assert_int_equal(tokens[j], firsts[i] + j);
    }
    dataset_unref(dataset);
    remove_tokens();
}

// floor((tokens - 1) / length) for every small case, and the last window ends in the file.
static void test_window_counts(void **state) {
    (void)state;
    for (uint32_t tokens = 1; tokens <= 24; tokens++)
        for (uint32_t length = 1; length <= 8; length++) {
            char keys[128];
            write_tokens("tokens1.bin", 0, tokens, 0);
            snprintf(keys, sizeof keys, "format = tokens\npath = tokens1.bin\ndtype = u16\nlength = %u\n",
                     length);
            if (tokens < length + 1) {
                expect_refusal(keys, -EINVAL, "which is one window of length+1");
                continue;
            }
            struct dataset *dataset = open_good(keys);
            assert_int_equal(dataset->layout->samples, (tokens - 1) / length);
            uint16_t window[9];
            read_sample(dataset, 0, dataset->layout->samples - 1, window);
            assert_int_equal(window[0], (dataset->layout->samples - 1) * length);
            dataset_unref(dataset);
        }
    remove_tokens();
}

static void test_header(void **state) {
    (void)state;
    write_tokens("tokens1.bin", 7, 9, 1024);
    struct dataset *dataset = open_good(TOKENS(4) "header_bytes = 1024\n");
    assert_int_equal(dataset->layout->samples, 2);
    uint16_t window[5] = {0};
    read_sample(dataset, 0, 1, window);
    assert_int_equal(window[0], 11);
    dataset_unref(dataset);
    expect_refusal(TOKENS(4) "header_bytes = 1042\n", -EINVAL,
                   "found 1042 bytes, wanted more than header_bytes = 1042");
    remove_tokens();
}

static void test_refusals(void **state) {
    (void)state;
    write_tokens("tokens1.bin", 0, 9, 0);
    write_tokens("tokens2.bin", 0, 4, 0);
    expect_refusal(TOKENS(4), -EINVAL,
                   "/tokens2.bin: found 4 tokens, wanted at least 5, which is one window of length+1");
    write_pattern("tokens2.bin", 13, 1);
    expect_refusal(TOKENS(4), -EINVAL,
                   "/tokens2.bin: found 13 bytes of tokens, wanted a multiple of 2, the size of dtype u16");
    write_pattern("tokens2.bin", 0, 1);
    expect_refusal(TOKENS(4), -EINVAL, "/tokens2.bin: found an empty file");
    remove_tokens();
    expect_refusal(TOKENS(4), -ENOENT, "path: found no file that matches");
    expect_refusal(TOKENS(1073741824), -EINVAL,
                   "length: found samples of u16[1073741825], wanted from 1 byte to 1 GiB");
}

static void test_dtypes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t dtype;
        uint32_t bytes;
    } dtypes[] = {{"u8", DTYPE_U8, 1},   {"i8", DTYPE_I8, 1},   {"u16", DTYPE_U16, 2}, {"i16", DTYPE_I16, 2},
                  {"u32", DTYPE_U32, 4}, {"i32", DTYPE_I32, 4}, {"u64", DTYPE_U64, 8}, {"i64", DTYPE_I64, 8}};
    write_pattern("dtypes.bin", 64, 1);
    for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
        char keys[128];
        snprintf(keys, sizeof keys, "format = tokens\npath = dtypes.bin\ndtype = %s\nlength = 3\n",
                 dtypes[i].name);
        struct dataset *dataset = open_good(keys);
        assert_int_equal(dataset->layout->fields[0].dtype, dtypes[i].dtype);
        assert_int_equal(dataset->layout->samples, (64 / dtypes[i].bytes - 1) / 3);
        dataset_unref(dataset);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),  cmocka_unit_test(test_window_counts), cmocka_unit_test(test_header),
        cmocka_unit_test(test_refusals), cmocka_unit_test(test_dtypes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
