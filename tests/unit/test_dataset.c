#include "base/scope.h"
#include "base/sizes.h"
#include "tests/unit/source_fixture.h"

// A layout of one stream over files of these sample counts, after `before` files of another stream.
static struct dataset_layout *make_layout(uint32_t before, const uint64_t *samples, uint32_t count) {
    struct dataset_layout *layout =
        calloc(1, sizeof *layout + (before + count + 1) * sizeof layout->files[0]);
    assert_non_null(layout);
    uint64_t first = 0;
    for (uint32_t i = 0; i < before + count + 1; i++)
        layout->files[i] =
            (struct dataset_file){.first_sample = 0, .samples = 1ull << 40}; // never the right one
    for (uint32_t i = 0; i < count; i++) {
        layout->files[before + i] = (struct dataset_file){.first_sample = first, .samples = samples[i]};
        first += samples[i];
    }
    layout->samples = first;
    layout->stream_count = 1;
    layout->streams[0] = (struct dataset_stream){.first_file = before, .file_count = count};
    return layout;
}

static void test_find_file(void **state) {
    (void)state;
    static const uint64_t samples[] = {3, 1, 1, 7, 2};
    AUTO_FREE struct dataset_layout *layout = make_layout(2, samples, COUNT_OF(samples));
    uint64_t sample = 0;
    for (uint32_t file = 0; file < COUNT_OF(samples); file++)
        for (uint64_t i = 0; i < samples[file]; i++, sample++)
            for (uint32_t hint = 0; hint < 12; hint++)
                assert_int_equal(dataset_find_file(layout, &layout->streams[0], sample, hint), 2 + file);
    assert_int_equal(dataset_find_file(layout, &layout->streams[0], 13, UINT32_MAX), 6);
}

static void test_find_file_huge(void **state) {
    (void)state;
    uint64_t samples[1000];
    for (uint32_t i = 0; i < COUNT_OF(samples); i++)
        samples[i] = (1ull << 40) + i;
    AUTO_FREE struct dataset_layout *layout = make_layout(0, samples, COUNT_OF(samples));
    for (uint32_t i = 0; i < COUNT_OF(samples); i++) {
        const struct dataset_file *file = &layout->files[i];
        uint32_t hint = (i * 7) % 1000;
        assert_int_equal(dataset_find_file(layout, &layout->streams[0], file->first_sample, hint), i);
        assert_int_equal(
            dataset_find_file(layout, &layout->streams[0], file->first_sample + file->samples - 1, hint), i);
    }
}

static void test_shape_text(void **state) {
    (void)state;
    char text[DATASET_SHAPE_TEXT];
    const uint64_t shape[] = {3, 32, 18446744073709551615u};
    assert_string_equal(dataset_shape_text(0, shape, text), "");
    assert_string_equal(dataset_shape_text(1, shape, text), "[3]");
    assert_string_equal(dataset_shape_text(3, shape, text), "[3,32,18446744073709551615]");
}

static const char keys[] = "format = records\npath = data*.bin\nrecord_bytes = 10\n"
                           "field.label = u16 @ 0\nfield.image = u8[2,4] @ 2\n";

static void write_data(void) {
    write_pattern("data1.bin", 40000, 1);
    write_pattern("data2.bin", 60000, 2);
}

static uint64_t fingerprint_of(const char *text) {
    struct dataset *dataset = open_good(text);
    uint64_t fingerprint = dataset->layout->fingerprint;
    dataset_unref(dataset);
    return fingerprint;
}

static void test_print(void **state) {
    (void)state;
    write_data();
    struct dataset *dataset = open_good(keys);
    AUTO_FREE char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    dataset_print(out, dataset);
    fclose(out);
    char wanted[256];
    snprintf(wanted, sizeof wanted,
             "test: format records, 10000 samples of 10 bytes, 97.7 KiB in 2 files, fingerprint %016llx\n"
             "    label: u16\n"
             "    image: u8[2,4]\n",
             (unsigned long long)dataset->layout->fingerprint);
    assert_string_equal(text, wanted);
    dataset_unref(dataset);
}

static void test_references(void **state) {
    (void)state;
    write_data();
    uint32_t before = count_descriptors();
    struct dataset *dataset = open_good(keys);
    assert_ptr_equal(dataset_ref(dataset), dataset);
    assert_int_equal(count_descriptors(), before + 2);
    dataset_unref(dataset);
    assert_int_equal(count_descriptors(), before + 2);
    assert_string_equal(dataset->name, "test");
    dataset_unref(dataset);
    assert_int_equal(count_descriptors(), before);
    dataset_unref(NULL);
}

static void change_byte(const char *name, long offset) {
    AUTO_FCLOSE FILE *file = fopen(path_in_folder(name), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, offset < 0 ? SEEK_END : SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_not_equal(fputc(byte ^ 1, file), EOF);
}

static void test_fingerprint_is_of_the_data(void **state) {
    (void)state;
    write_data();
    uint64_t fingerprint = fingerprint_of(keys);
    assert_int_equal(fingerprint_of(keys), fingerprint);
    // A copy elsewhere, under other names, at another time, with another reader, is the same dataset.
    write_pattern("copy1.bin", 40000, 1);
    write_pattern("copy2.bin", 60000, 2);
    assert_int_equal(fingerprint_of("format = records\npath = copy?.bin\nrecord_bytes = 10\nio = pread\n"
                                    "field.label = u16 @ 0\nfield.image = u8[2,4] @ 2\n"),
                     fingerprint);
    const struct {
        const char *name;
        long offset;
    } changes[] = {
        {"data1.bin", 0}, {"data1.bin", 4095}, {"data1.bin", -1}, {"data2.bin", -4096}, {"data2.bin", 0}};
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        change_byte(changes[i].name, changes[i].offset);
        assert_int_not_equal(fingerprint_of(keys), fingerprint);
        change_byte(changes[i].name, changes[i].offset);
        assert_int_equal(fingerprint_of(keys), fingerprint);
    }
    change_byte("data2.bin", 30000); // the middle is not looked at
    assert_int_equal(fingerprint_of(keys), fingerprint);
}

static void test_fingerprint_is_of_the_facts(void **state) {
    (void)state;
    static const char *const other[] = {
        "format = records\npath = data*.bin\nrecord_bytes = 10\nfield.label = u16 @ 0\nfield.image = u8[4,2] "
        "@ 2\n",
        "format = records\npath = data*.bin\nrecord_bytes = 10\nfield.label = i16 @ 0\nfield.image = u8[2,4] "
        "@ 2\n",
        "format = records\npath = data*.bin\nrecord_bytes = 10\nfield.lable = u16 @ 0\nfield.image = u8[2,4] "
        "@ 2\n",
        "format = records\npath = data*.bin\nrecord_bytes = 10\nfield.image = u8[2,4] @ 2\nfield.label = u16 "
        "@ 0\n",
        "format = records\npath = data*.bin\nrecord_bytes = 20\nfield.label = u16 @ 0\nfield.image = u8[2,4] "
        "@ 2\n",
        "format = records\npath = data1.bin\nrecord_bytes = 10\nfield.label = u16 @ 0\nfield.image = u8[2,4] "
        "@ 2\n",
    };
    write_data();
    uint64_t seen[1 + COUNT_OF(other)] = {fingerprint_of(keys)};
    for (size_t i = 0; i < COUNT_OF(other); i++) {
        seen[1 + i] = fingerprint_of(other[i]);
        for (size_t j = 0; j <= i; j++)
            assert_int_not_equal(seen[1 + i], seen[j]);
    }
}

// Of many files 64 are looked at, the first and the last among them. The number was worked out in Python,
// over the bytes that builder_fingerprint.c says; it is part of resume tokens, so it may never change.
static void test_fingerprint_is_pinned(void **state) {
    (void)state;
    char name[32];
    for (uint32_t i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "many%03u.bin", i);
        write_pattern(name, 8 * (1 + i % 5), i);
    }
    static const char many[] = "format = records\npath = many*.bin\nrecord_bytes = 8\nfield.a = f64 @ 0\n";
    uint64_t fingerprint = fingerprint_of(many);
    assert_int_equal(fingerprint, 0x3a46d2bb3b2e4a8eull);
    change_byte("many099.bin", 0);
    assert_int_not_equal(fingerprint_of(many), fingerprint);
    change_byte("many099.bin", 0);
    change_byte("many000.bin", 0);
    assert_int_not_equal(fingerprint_of(many), fingerprint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find_file),
        cmocka_unit_test(test_find_file_huge),
        cmocka_unit_test(test_shape_text),
        cmocka_unit_test(test_print),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_fingerprint_is_of_the_data),
        cmocka_unit_test(test_fingerprint_is_of_the_facts),
        cmocka_unit_test(test_fingerprint_is_pinned),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
