// Files in folders: which are samples, in which order, and how they are opened later.
#include "tests/unit/source_fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/dataset/derived.h"
#include "daemon/dataset/folder_file.h"
#include "daemon/dataset/size_table.h"
#include "daemon/source/folder/folder_read.h"

#define ROOT "tree"

static void make_directory(const char *name) {
    assert_true(mkdir(path_in_folder(name), 0755) == 0 || errno == EEXIST);
}

static int make_tree(void **state) {
    if (make_folder(state))
        return -1;
    const char *const directories[] = {ROOT, ROOT "/b", ROOT "/a", ROOT "/a/x", ROOT "/a.b", ROOT "/empty"};
    const char *const files[] = {ROOT "/b/1", ROOT "/a/2", ROOT "/a/1", ROOT "/a/x/0", ROOT "/a.b/1"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        make_directory(directories[i]);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        write_pattern(files[i], i + 1, (uint32_t)i);
    return 0;
}

// The dataset's index, as a loader has it.
static const uint8_t *map_index(const struct dataset *dataset) {
    const uint8_t *index =
        mmap(NULL, dataset->layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    assert_true(index != MAP_FAILED);
    return index;
}

static void test_order_and_classes(void **state) {
    (void)state;
    const char *const paths[] = {"a/1", "a/2", "a/x/0", "a.b/1", "b/1"};
    const uint8_t classes[] = {0, 0, 0, 1, 2};
    struct dataset *dataset = open_good("format = folder\npath = " ROOT "\nfield.file = bytes\npad.file = 9\n"
                                        "field.class = u8\n");
    const struct dataset_layout *layout = dataset->layout;
    const uint8_t *index = map_index(dataset);
    const struct folder_files files = folder_files_of(layout, index);
    char text[DATASET_PATH_TEXT], wanted[600], path[PATH_MAX];
    assert_int_equal(layout->samples, 5);
    assert_int_equal(dataset_file_numbers(dataset), 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_string_equal(folder_files_get(&files, 0, i, path).path, paths[i]);
        assert_int_equal(index[layout->columns[1].offset + i], classes[i]);
        snprintf(wanted, sizeof wanted, "%s/" ROOT "/%s", folder, paths[i]);
        assert_string_equal(dataset_file_path(dataset, i, text), wanted);
    }
    munmap((void *)index, layout->index_bytes);
    dataset_unref(dataset);
}

static void test_tables_of_sizes(void **state) {
    (void)state;
    const uint64_t samples[] = {0, 1, 2, 3, 4};
    const struct selection every = {.of = 5, .count = 5};
    struct dataset *ragged = open_good("format = folder\npath = " ROOT "\nfield.file = bytes\n");
    struct dataset *padded =
        open_good("format = folder\npath = " ROOT "\nfield.file = bytes\npad.file = 9\n");
    struct dataset *view = derived_open(ragged, &every, 0, -1);
    assert_non_null(view);
    assert_ptr_equal(view->size_tables[0], ragged->size_tables[0]);
    dataset_unref(ragged);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(size_table_get(view->size_tables[0], i), "\3\2\4\5\1"[i]);
    assert_int_equal(size_table_sum(view->size_tables[0], samples, 5), 15);
    assert_null(padded->size_tables[0]);
    dataset_unref(view);
    dataset_unref(padded);
}

static void test_opening(void **state) {
    (void)state;
    char path[600];
    snprintf(path, sizeof path, "%s/" ROOT, folder);
    AUTO_CLOSE int top = folder_open(path);
    assert_true(top >= 0);
    assert_int_equal(symlink("1", path_in_folder(ROOT "/a/link")), 0);
    assert_int_equal(symlink("a", path_in_folder(ROOT "/folder-link")), 0);
    assert_int_equal(mkfifo(path_in_folder(ROOT "/a/fifo"), 0644), 0);
    assert_int_equal(folder_file_open(top, "a/missing"), -ENOENT);
    assert_int_equal(folder_file_open(top, "a/link"), -ELOOP);
    assert_int_equal(folder_file_open(top, "folder-link/1"), -ELOOP);
    assert_int_equal(folder_file_open(top, "../feedd.conf"), -EXDEV);
    assert_int_equal(folder_file_open(top, "/etc/passwd"), -EXDEV);
    const struct {
        const char *path;
        uint64_t bytes;
        int result;
    } checks[] = {
        {"a/1", 3, 0}, {"a/1", 2, -ESTALE}, {"a/1", 4, -ESTALE}, {"a", 0, -EISDIR}, {"a/fifo", 0, -ENXIO}};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        AUTO_CLOSE int fd = folder_file_open(top, checks[i].path); // a FIFO, too, at once
        assert_true(fd >= 0);
        assert_int_equal(folder_file_check(fd, checks[i].bytes), checks[i].result);
        assert_true(checks[i].result || !(fcntl(fd, F_GETFL) & O_NONBLOCK));
    }
    unlink(path_in_folder(ROOT "/a/link"));
    unlink(path_in_folder(ROOT "/folder-link"));
    unlink(path_in_folder(ROOT "/a/fifo"));
}

static void test_extensions(void **state) {
    (void)state;
    assert_true(folder_takes(NULL, "anything"));
    assert_true(folder_takes("jpg", "1.jpg"));
    assert_true(folder_takes("png|jpg", "1.JPG"));
    assert_true(folder_takes("seg.png", "1.seg.png"));
    assert_false(folder_takes("jpg", "jpg"));
    assert_false(folder_takes("jpg", "1.jpg2"));
    assert_false(folder_takes("jpg", "1jpg"));
    assert_false(folder_takes("jpg|png", "1.pn"));
}

static void test_nothing_stays_open(void **state) {
    (void)state;
    expect_refusal("format = folder\npath = missing\nfield.file = bytes\npad.file = 9", -ENOENT,
                   "cannot be opened");
    expect_refusal("format = folder\npath = " ROOT "/empty\nfield.file = bytes\npad.file = 9", -ENODATA,
                   "found no files, wanted some");
    assert_int_equal(symlink("/etc", path_in_folder(ROOT "/out")), 0);
    expect_refusal("format = folder\npath = " ROOT "\nfield.file = bytes\npad.file = 9", -EXDEV,
                   "out: found a symbolic link to /etc");
    unlink(path_in_folder(ROOT "/out"));
}

// Calls that open or map a file so far, and the number of the one that fails for want of descriptors or memory (0: none
// does).
static _Atomic uint32_t called, lacking;

// How many more calls find that something was renamed while they followed "..".
static _Atomic uint32_t renamed;

// These two replace the C library's.
void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    if (fd >= 0 && ++called == lacking) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    const long at = syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
    return (void *)at; // NOLINT(performance-no-int-to-ptr)
}

long syscall(long number, ...) {
    static long (*real)(long, ...);
    long words[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        words[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_openat2 && ++called == lacking) {
        errno = EMFILE;
        return -1;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    if (number == SYS_openat2 && renamed && strstr((const char *)words[1], "..")) {
        renamed--;
        errno = EAGAIN;
        return -1;
    }
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

// Then a dataset opens with all its samples and its usual fingerprint, or not at all.
static void test_lack_of_descriptors_and_memory(void **state) {
    static const char list[] = "file\na/1\na/2\nb/1\nmissing\n";
    static const char *const keys[] = {"format = folder\npath = " ROOT "\nfield.file = bytes\npad.file = 9\n",
                                       "format = folder\npath = " ROOT
                                       "\ncsv = list.csv\ncsv_file = file\nfield.file = bytes @ file\n"
                                       "pad.file = 9\non_error = skip\n"};
    (void)state;
    write_file("list.csv", list, sizeof list - 1);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct dataset *whole = open_good(keys[i]);
        uint32_t number = 0;
        do {
            struct dataset *dataset = NULL;
            struct error error;
            called = 0;
            lacking = ++number;
            const int err = open_keys(keys[i], &dataset, &error);
            if (err && !error_is_lack(err))
                fail_msg("call %" PRIu32 ": %s", number, error.text);
            if (!err) {
                assert_int_equal(dataset->layout->samples, whole->layout->samples);
                assert_int_equal(dataset->layout->fingerprint, whole->layout->fingerprint);
                dataset_unref(dataset);
            }
        } while (lacking <= called);
        assert_true(number > 5);
        lacking = 0;
        dataset_unref(whole);
    }
}

// The row is looked up again; it never becomes an incomplete sample.
static void test_renaming_elsewhere(void **state) {
    static const char list[] = "file\na/../a/1\na/2\nmissing\n";
    static const char keys[] = "format = folder\npath = " ROOT "\ncsv = list.csv\ncsv_file = file\n"
                               "field.file = bytes @ file\npad.file = 9\non_error = skip\n";
    (void)state;
    write_file("list.csv", list, sizeof list - 1);
    struct dataset *whole = open_good(keys);
    for (uint32_t times = 1; times <= 20; times++) {
        renamed = times;
        struct dataset *dataset = open_good(keys);
        assert_int_equal(renamed, 0);
        assert_int_equal(dataset->layout->fingerprint, whole->layout->fingerprint);
        dataset_unref(dataset);
    }
    renamed = UINT32_MAX;
    expect_refusal(keys, -EAGAIN, "line 2: found \"a/../a/1\", wanted a path without \"..\"");
    renamed = 0;
    dataset_unref(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_classes),
        cmocka_unit_test(test_tables_of_sizes),
        cmocka_unit_test(test_opening),
        cmocka_unit_test(test_extensions),
        cmocka_unit_test(test_nothing_stays_open),
        cmocka_unit_test(test_lack_of_descriptors_and_memory),
        cmocka_unit_test(test_renaming_elsewhere),
    };
    return cmocka_run_group_tests_name("source_folder", tests, make_tree, remove_folder);
}
