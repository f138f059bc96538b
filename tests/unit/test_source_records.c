// Format records, and what all formats share: patterns, opening files, limits, O_DIRECT.
#include "base/error.h"
#include "base/sizes.h"
#include "daemon/io_mode.h"
#include "tests/unit/source_fixture.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#define CIFAR "format = records\npath = cifar*.bin\nrecord_bytes = 3074\n"
#define ONE   "format = records\nrecord_bytes = 4\nfield.a = u32 @ 0\npath = "

static void test_cifar(void **state) {
    (void)state;
    write_pattern("cifar2.bin", 3074 * 3, 2);
    write_pattern("cifar10.bin", 3074 * 5, 1); // before cifar2 in byte order
    struct dataset *dataset = open_good(CIFAR "field.image = u8[3,32,32] @ 2\nfield.label = u8 @ 1\n");
    const struct dataset_layout *layout = dataset->layout;
    assert_int_equal(layout->samples, 8);
    assert_int_equal(layout->field_count, 2);
    assert_string_equal(layout->fields[0].name, "image");
    assert_int_equal(layout->fields[0].dtype, DTYPE_U8);
    assert_int_equal(layout->fields[0].dimensions, 3);
    assert_int_equal(layout->fields[0].shape[0], 3);
    assert_int_equal(layout->fields[0].shape[2], 32);
    assert_int_equal(layout->fields[0].sample_bytes, 3072);
    assert_int_equal(layout->fields[1].dimensions, 0);
    assert_int_equal(layout->fields[1].sample_bytes, 1);
    assert_int_equal(layout->stream_count, 1);
    assert_int_equal(layout->streams[0].record_bytes, 3074);
    assert_int_equal(layout->streams[0].extent_count, 2);
    assert_int_equal(layout->streams[0].extents[0].field, 1); // by offset
    assert_int_equal(layout->streams[0].extents[0].offset, 1);
    assert_int_equal(layout->streams[0].extents[1].offset, 2);
    assert_int_equal(layout->streams[0].extents[1].bytes, 3072);
    assert_int_equal(layout->file_count, 2);
    assert_non_null(strstr(dataset->paths[0], "/cifar10.bin"));
    assert_int_equal(layout->files[0].samples, 5);
    assert_int_equal(layout->files[1].first_sample, 5);
    assert_int_equal(layout->files[1].samples, 3);
    assert_int_equal(layout->files[1].bytes, 3074 * 3);
    assert_int_equal(layout->bytes, sizeof *layout + 2 * sizeof layout->files[0]);
    assert_int_equal(fcntl(dataset->fds[0], F_GETFL) & (O_ACCMODE | O_NONBLOCK | O_DIRECT), O_RDONLY);
    assert_int_equal(fcntl(dataset->fds[0], F_GETFD), FD_CLOEXEC);
    dataset_unref(dataset);
}

static void test_bytes(void **state) {
    (void)state;
    static const uint8_t first[] = {9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    static const uint8_t second[] = {9, 9, 9, 11, 12, 13, 14, 15};
    write_file("bytes1", first, sizeof first);
    write_file("bytes2", second, sizeof second);
    struct dataset *dataset =
        open_good("format = records\npath = bytes?\nrecord_bytes = 5\nheader_bytes = 3\n"
                  "field.a = u8[2] @ 3\nfield.b = u16 @ 0\n");
    assert_int_equal(dataset->layout->samples, 3);
    uint8_t data[2];
    read_sample(dataset, 0, 1, data);
    assert_memory_equal(data, ((uint8_t[]){9, 10}), 2);
    read_sample(dataset, 1, 2, data);
    assert_memory_equal(data, ((uint8_t[]){11, 12}), 2);
    dataset_unref(dataset);
}

static void test_settings_pass_through(void **state) {
    (void)state;
    write_pattern("s.bin", 8, 1);
    struct dataset *dataset = open_good(ONE "s.bin\nio = uring\nio_delay_us = 2000\non_error = skip\n");
    assert_int_equal(dataset->io, IO_URING);
    assert_int_equal(dataset->io_delay_us, 2000);
    assert_true(dataset->on_error);
    assert_false(dataset->io_direct);
    assert_int_equal(dataset->layout->files[0].direct_memory, 0);
    dataset_unref(dataset);
}

static void test_bad_fields(void **state) {
    (void)state;
    static const char *const texts[] = {
        "u8",
        "u8 @",
        "@ 1",
        "u8[3",
        "u8[] @ 1",
        "u8[3,] @ 1",
        "u8[-3] @ 1",
        "u8[3] @ -1",
        "u8[3] @ 1 x",
        "u9 @ 1",
        "u8[3 4] @ 1",
        "u8 [3] 1",
        "u8[3][4] @ 1",
        "u8[0x10] @ 1",
        "u8 @ 1.5",
        "u8@99999999999999999999",
        "uint8verylongname @ 0",
        "u8[1,1,1,1,1,1,1,1,1] @ 0",
        "u8[18446744073709551616] @ 0",
    };
    write_pattern("cifar.bin", 3074, 1);
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char keys[256], wanted[256];
        snprintf(keys, sizeof keys, CIFAR "field.a = %s\n", texts[i]);
        snprintf(wanted, sizeof wanted,
                 "field.a: found \"%s\", wanted DTYPE @ OFFSET or DTYPE[N,...] @ OFFSET", texts[i]);
        expect_refusal(keys, -EINVAL, wanted);
    }
    remove(path_in_folder("cifar.bin"));
}

static void test_dtypes_by_other_names(void **state) {
    (void)state;
    write_pattern("cifar.bin", 3074, 1);
    expect_refusal(CIFAR "field.a = float32 @ 0\n", -EINVAL,
                   "field.a: unknown dtype \"float32\"; perhaps you mean \"f32\"");
    expect_refusal(CIFAR "field.a = U8[3] @ 1\n", -EINVAL,
                   "field.a: unknown dtype \"U8\"; perhaps you mean \"u8\"");
    remove(path_in_folder("cifar.bin"));
}

static void test_good_fields(void **state) {
    (void)state;
    write_pattern("good.bin", 3074, 1);
    dataset_unref(open_good("format = records\npath = good.bin\nrecord_bytes = 3074\n"
                            "field.a = u8[3,32,32]@2\nfield.b=bool@0\nfield.c = i8 [ 1 , 1 ] @ 1\n"));
    dataset_unref(open_good("format = records\npath = good.bin\nrecord_bytes = 3074\n"
                            "field.a = bf16[1,1,1,1,1,1,1,1] @ 3072\n"));
}

static void test_field_places(void **state) {
    (void)state;
    write_pattern("places.bin", 3074, 1);
#define PLACES "format = records\npath = places.bin\nrecord_bytes = 3074\n"
    expect_refusal(PLACES "field.a = u8[3,32,32] @ 3\n", -EINVAL,
                   "field.a: found 3072 bytes at offset 3, wanted them to end within record_bytes = 3074");
    expect_refusal(PLACES "field.a = u8 @ 3074\n", -EINVAL, "found 1 bytes at offset 3074");
    expect_refusal(PLACES "field.a = u8 @ 18446744073709551615\n", -EINVAL, "at offset 18446744073709551615");
    expect_refusal(PLACES "field.a = u8[8] @ 0\nfield.b = u8[8] @ 16\nfield.c = u8[10] @ 7\n", -EINVAL,
                   ":7: [dataset test] field.c: found offset 7, wanted 8 or more, where field.a ends");
    expect_refusal(PLACES "field.a = u8 @ 5\nfield.b = u8 @ 5\n", -EINVAL, "fields may not overlap");
    expect_refusal(PLACES "field.a = u8[0] @ 5\n", -EINVAL,
                   "field.a: found samples of u8[0], wanted from 1 byte to 1 GiB");
    expect_refusal(PLACES "field.a = f64[2305843009213693952] @ 0\n", -EINVAL,
                   "found samples of f64[2305843009213693952]");
    expect_refusal(PLACES "field.a = f64[2305843009213693953] @ 0\n", -EINVAL,
                   "wanted from 1 byte"); // 8 if it wraps
    expect_refusal(PLACES "field.a = u8[4294967296,4294967296] @ 0\n", -EINVAL,
                   "wanted from 1 byte to 1 GiB");
    expect_refusal(PLACES "field.a = u8[1073741825] @ 0\n", -EINVAL, "wanted from 1 byte to 1 GiB");
}

static void test_sizes(void **state) {
    (void)state;
    write_pattern("size3.bin", 10, 1);
    write_pattern("size1.bin", 8, 1);
    write_pattern("size0.bin", 0, 1);
    expect_refusal(ONE "size[13].bin\n", -EINVAL,
                   "/size3.bin: found 10 bytes of records, wanted a multiple of record_bytes = 4 (2 bytes "
                   "are left over)");
    expect_refusal(ONE "size0.bin\n", -EINVAL, "path: ");
    expect_refusal(ONE "size0.bin\n", -EINVAL, "/size0.bin: found an empty file, wanted data");
    expect_refusal(ONE "size1.bin\nheader_bytes = 8\n", -EINVAL,
                   "found 8 bytes, wanted more than header_bytes = 8");
    expect_refusal(ONE "size1.bin\nheader_bytes = 9\n", -EINVAL,
                   "found 8 bytes, wanted more than header_bytes = 9");
    expect_refusal(ONE "size1.bin\nheader_bytes = 1\n", -EINVAL, "found 7 bytes of records");
}

static void test_patterns(void **state) {
    (void)state;
    expect_refusal(ONE "none*.bin\n", -ENOENT, "path: found no file that matches \"");
    expect_refusal(ONE "none.bin\n", -ENOENT,
                   "/none.bin: the file cannot be opened: No such file or directory");
    expect_refusal(ONE "/nonexistent/none.bin\n", -ENOENT,
                   "/nonexistent/none.bin: the file cannot be opened");
    write_pattern("odd[1].bin", 4, 1);
    write_pattern("odd1.bin", 8, 1);
    struct dataset *dataset = open_good(ONE "odd[1].bin\n"); // exists as it stands
    assert_int_equal(dataset->layout->samples, 1);
    dataset_unref(dataset);
    remove(path_in_folder("odd[1].bin"));
    dataset = open_good(ONE "odd[1].bin\n");
    assert_int_equal(dataset->layout->samples, 2);
    dataset_unref(dataset);
}

// Where the configuration lies does not change what a pattern means, even in a folder with a strange name.
static void test_folder_with_pattern_letters(void **state) {
    (void)state;
    char text[512];
    struct config *config;
    struct dataset *dataset;
    struct error error = {0};
    assert_int_equal(mkdir(path_in_folder("a[b]*"), 0700), 0);
    write_pattern("a[b]*/x1.bin", 4, 1);
    snprintf(text, sizeof text, "[dataset test]\n" ONE "x*.bin\n");
    write_file("a[b]*/feedd.conf", text, strlen(text));
    assert_int_equal(config_load(path_in_folder("a[b]*/feedd.conf"), &config, &error), 0);
    if (source_open_dataset(&config->datasets[0], &dataset, &error))
        fail_msg("%s", error.text);
    assert_non_null(strstr(dataset->paths[0], "/a[b]*/x1.bin"));
    dataset_unref(dataset);
    config_free(config);
}

static void expect_paths(const char *keys, size_t count, const char *const paths[]) {
    struct dataset *dataset = open_good(keys);
    assert_int_equal(dataset->layout->file_count, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(dataset->paths[i], path_in_folder(paths[i]));
    dataset_unref(dataset);
}

// Of an absolute path, too: only what does not exist as it is written is a pattern.
static void test_absolute_folder_with_pattern_letters(void **state) {
    (void)state;
    static const char *const both[] = {"run[1]/x1.bin", "run[1]/x2.bin"}, *const other = "run1/x3.bin";
    static const char *const deep[] = {"run[1]/deep*er/y.bin"}, *const first = "run[1]/x1.bin";
    char keys[2048];
    assert_int_equal(mkdir(path_in_folder("run[1]"), 0700), 0);
    assert_int_equal(mkdir(path_in_folder("run[1]/deep*er"), 0700), 0);
    assert_int_equal(mkdir(path_in_folder("run1"), 0700), 0);
    for (size_t i = 0; i < COUNT_OF(both); i++)
        write_pattern(both[i], 4, 1);
    write_pattern(deep[0], 4, 1);
    write_pattern(other, 4, 1);
    snprintf(keys, sizeof keys, ONE "%s/run[1]/*.bin\n", folder);
    expect_paths(keys, COUNT_OF(both), both);
    snprintf(keys, sizeof keys, ONE "%s/run[1]/deep*er/?.bin\n", folder);
    expect_paths(keys, COUNT_OF(deep), deep);
    expect_paths(ONE "run[1]/*.bin\n", COUNT_OF(both), both);
    // A backslash makes a letter ordinary; a class can be written so that no folder has that name.
    snprintf(keys, sizeof keys, ONE "%s/run\\[1\\]/*1.bin\n", folder);
    expect_paths(keys, 1, &first);
    snprintf(keys, sizeof keys, ONE "%s/run[1-1]/*.bin\n", folder);
    expect_paths(keys, 1, &other);
    // The message has what was written.
    snprintf(keys, sizeof keys, ONE "%s/run[1]/z*\n", folder);
    expect_refusal(keys, -ENOENT, "/run[1]/z*\", wanted at least one");
}

// As a user without rights, also where the tests run as root.
static void refuse_as_nobody(const char *path, const char *part) {
    char text[256];
    struct config *config;
    struct dataset *dataset;
    struct error error;
    uid_t user = geteuid();
    snprintf(text, sizeof text, "[dataset test]\n" ONE "%s\n", path);
    assert_int_equal(load_text(text, &config, &error), 0);
    assert_int_equal(user == 0 ? seteuid(65534) : 0, 0);
    int err = source_open_dataset(&config->datasets[0], &dataset, &error);
    assert_int_equal(user == 0 ? seteuid(0) : 0, 0);
    if (err != -EACCES || !strstr(error.text, part))
        fail_msg("%d, %s", err, error.text);
    config_free(config);
}

static void test_unreadable(void **state) {
    (void)state;
    assert_int_equal(chmod(folder, 0711), 0);
    assert_int_equal(mkdir(path_in_folder("closed"), 0755), 0);
    write_pattern("closed/x.bin", 4, 1);
    assert_int_equal(chmod(path_in_folder("closed/x.bin"), 0), 0);
    refuse_as_nobody("closed/x.bin", "/closed/x.bin: the file cannot be opened: Permission denied");
    assert_int_equal(chmod(path_in_folder("closed"), 0), 0);
    refuse_as_nobody("closed/*.bin", "/closed: the folder cannot be read for pattern");
    assert_int_equal(chmod(path_in_folder("closed"), 0700), 0);
}

static void test_special_files(void **state) {
    (void)state;
    assert_int_equal(mkdir(path_in_folder("dir"), 0700), 0);
    assert_int_equal(mkfifo(path_in_folder("fifo"), 0600), 0);
    assert_int_equal(symlink("gone", path_in_folder("dangling")), 0);
    expect_refusal(ONE "dir\n", -EINVAL, "/dir: found a folder, wanted a regular file");
    expect_refusal(ONE "fifo\n", -EINVAL, "/fifo: found a FIFO, wanted a regular file");
    expect_refusal(ONE "/dev/null\n", -EINVAL, "/dev/null: found a device, wanted a regular file");
    expect_refusal(ONE "dang*\n", -ENOENT, "/dangling: the file cannot be opened: No such file or directory");
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.90s/sock", folder);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    expect_refusal(ONE "sock\n", -ENXIO, "/sock: the file cannot be opened");
}

static void with_descriptor_limit(uint64_t most, const char *part) {
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    expect_refusal(ONE "limit*\n", -EMFILE, part);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void test_descriptors_run_out(void **state) {
    (void)state;
    char name[32];
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "limit%02d", i);
        write_pattern(name, 4, 1);
    }
    with_descriptor_limit(
        20, "this process may have only 20 files open at once; raise LimitNOFILE or ulimit -n (a reload");
    with_descriptor_limit(
        50, "found 30 files, wanted at most 4, because a process may open 50; raise LimitNOFILE");
    dataset_unref(open_good(ONE "limit*\n"));
}

static void test_sample_too_large(void **state) {
    (void)state;
    AUTO_FCLOSE FILE *file = fopen(path_in_folder("sparse"), "wb");
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), (off_t)3 << 30), 0);
    dataset_unref(open_good(
        "format = records\nrecord_bytes = 1073741824\npath = sparse\nfield.a = u8[1073741824] @ 0\n"));
}

static void test_direct(void **state) {
    (void)state;
    write_pattern("direct.bin", 40000, 1);
    struct dataset *plain = open_good(ONE "direct.bin\n"), *dataset;
    uint64_t fingerprint = plain->layout->fingerprint;
    dataset_unref(plain);
    struct error error;
    int err = open_keys(ONE "direct.bin\nio_direct = yes\n", &dataset, &error);
    if (err == -EINVAL || err == -EOPNOTSUPP) {
        assert_non_null(strstr(error.text, "because of io_direct = yes"));
        print_message("skipped: %s\n", error.text);
        skip();
    }
    assert_int_equal(err, 0);
    assert_int_equal(dataset->layout->fingerprint, fingerprint);
    assert_true(fcntl(dataset->fds[0], F_GETFL) & O_DIRECT);
    uint32_t memory = dataset->layout->files[0].direct_memory,
             offset = dataset->layout->files[0].direct_offset;
    assert_true(memory && !(memory & (memory - 1)));
    assert_true(offset && !(offset & (offset - 1)));
    void *buffer = NULL;
    assert_int_equal(posix_memalign(&buffer, memory > 4096 ? memory : 4096, 65536), 0);
    assert_int_equal(pread(dataset->fds[0], buffer, 65536, 0), 40000);
    assert_int_equal(pread(dataset->fds[0], buffer, offset, offset), offset);
    free(buffer);
    dataset_unref(dataset);
}

// sysfs is a filesystem without O_DIRECT that holds regular files of a true size.
static void test_direct_refused(void **state) {
    (void)state;
    if (access("/sys/kernel/notes", R_OK) != 0) {
        print_message("skipped: no /sys/kernel/notes to read\n");
        skip();
    }
#define NOTES "format = records\nrecord_bytes = 1\nfield.a = u8 @ 0\npath = /sys/kernel/notes\n"
    dataset_unref(open_good(NOTES));
    expect_refusal(NOTES "io_direct = yes\n", -EINVAL,
                   "/sys/kernel/notes: found a filesystem that refuses O_DIRECT (Invalid argument)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cifar),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_settings_pass_through),
        cmocka_unit_test(test_bad_fields),
        cmocka_unit_test(test_dtypes_by_other_names),
        cmocka_unit_test(test_good_fields),
        cmocka_unit_test(test_field_places),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_folder_with_pattern_letters),
        cmocka_unit_test(test_absolute_folder_with_pattern_letters),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_special_files),
        cmocka_unit_test(test_descriptors_run_out),
        cmocka_unit_test(test_sample_too_large),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_direct_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
