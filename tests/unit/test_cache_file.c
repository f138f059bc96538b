// The file of a cache on disk keeps its contents if memory or descriptors run out while it is opened.
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/supervisor/feeds/cache_file.h"
#include "tests/unit/source_fixture.h"

#define PLACE 40000 // in the data
#define MARK  "decoded"

static const struct sample_cache_key key = {3, 4};
static int lacking; // what every read fails for; 0: none does

// This replaces the C library's.
ssize_t pread(int fd, void *memory, size_t bytes, off_t offset) {
    if (!lacking)
        return syscall(SYS_pread64, fd, memory, bytes, offset);
    errno = lacking;
    return -1;
}

static int open_cache(int *file, struct error *error) {
    struct cache_file cache = {.folder = folder, .dataset = "pictures", .user = geteuid(), .key = key};
    AUTO_CLOSE int memory = -1;
    *file = -1;
    *error = (struct error){0};
    assert_true(sample_cache_plan(&cache.plan, 16, MIB, true));
    return cache_file_open(&cache, &memory, file, error);
}

static bool is_marked(void) {
    char text[sizeof MARK] = "";
    struct error error;
    AUTO_CLOSE int file = -1;
    assert_int_equal(open_cache(&file, &error), 0);
    assert_int_equal(pread(file, text, sizeof text, PLACE), sizeof text);
    return strcmp(text, MARK) == 0;
}

static void mark(void) {
    struct error error;
    AUTO_CLOSE int file = -1;
    assert_int_equal(open_cache(&file, &error), 0);
    assert_int_equal(pwrite(file, MARK, sizeof MARK, PLACE), sizeof MARK);
}

static void a_lack_empties_no_file(void **state) {
    static const int codes[] = {ENOMEM, ENFILE, EAGAIN};
    (void)state;
    mark();
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct error error;
        AUTO_CLOSE int file = -1;
        lacking = codes[i];
        const int err = open_cache(&file, &error);
        lacking = 0;
        assert_int_equal(err, -codes[i]);
        assert_true(is_marked());
        assert_int_equal(file, -1);
        assert_non_null(strstr(error.text, "cannot read the head of "));
        assert_non_null(strstr(error.text, strerror(codes[i])));
    }
}

// Storage that fails keeps nothing that could be used, so the file begins again.
static void a_head_that_cannot_be_read_is_written_anew(void **state) {
    struct error error;
    AUTO_CLOSE int file = -1;
    (void)state;
    mark();
    lacking = EIO;
    assert_int_equal(open_cache(&file, &error), -EIO); // its words cannot be read either
    lacking = 0;
    assert_false(is_marked());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lack_empties_no_file),
        cmocka_unit_test(a_head_that_cannot_be_read_is_written_anew),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
