// What feedctl pack finds of an earlier run: what cannot be read at the moment is not mistaken for something else.
#include <dirent.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sizes.h"
#include "client/ctl/pack_set.h"
#include "tests/unit/source_fixture.h"

#define TEXT "not what feedctl pack writes"

static int lacking;         // the errno with which reads fail; 0: they succeed
static uint32_t before_it;  // how many reads succeed first
static bool folders_failed; // whether readdir fails

// These two replace the C library's.
ssize_t pread(int fd, void *memory, size_t bytes, off_t offset) {
    if (!lacking || before_it) {
        before_it -= lacking != 0;
        return syscall(SYS_pread64, fd, memory, bytes, offset);
    }
    errno = lacking;
    return -1;
}

struct dirent *readdir(DIR *directory) {
    (void)directory;
    errno = folders_failed ? ENOMEM : 0;
    return NULL;
}

static int find(const char *name, struct error *error) {
    struct pack_identity identity = {.dataset = "numbers", .fingerprint = 1, .samples = 2, .seed = 3};
    struct pack_set set;
    *error = (struct error){0};
    int err = pack_set_open(&set, path_in_folder(name), error);
    if (!err)
        err = pack_set_find(&set, &identity, error);
    if (!err)
        err = pack_set_begin(&set, &identity, error);
    pack_set_close(&set);
    return err;
}

static void expect(const char *name, int code, const char *part) {
    struct error error;
    assert_int_equal(find(name, &error), code);
    if (!strstr(error.text, part) || (code != -EINVAL && strstr(error.text, "--force")))
        fail_msg("%s", error.text);
}

// Otherwise the advice would be to remove what is there.
static void a_shard_that_cannot_be_read(void **state) {
    static const int codes[] = {ENOMEM, EAGAIN, EIO};
    (void)state;
    expect("a", 0, "");
    write_file("a-00000.feed", TEXT, sizeof TEXT);
    expect("a", -EINVAL, "a-00000.feed is not a shard of this set");
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        lacking = codes[i];
        before_it = 2; // the manifest, and its end
        expect("a", -codes[i], "/a-00000.feed: ");
        before_it = 0;
        expect("a", -codes[i], "/a.pack.json: ");
    }
    lacking = 0;
}

// Otherwise a set whose manifest is not right would begin again, over the shards that are there.
static void a_folder_that_cannot_be_read(void **state) {
    (void)state;
    lacking = 0;
    write_file("b.pack.json", TEXT, sizeof TEXT);
    folders_failed = true;
    expect("b", -ENOMEM, "cannot read the folder ");
    folders_failed = false;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_that_cannot_be_read),
        cmocka_unit_test(a_folder_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
