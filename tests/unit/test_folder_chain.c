// Chains on a real io_uring: what they read, what they keep open, and what they do if the kernel takes half of one.
#include "daemon/loader/read/folder_chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/sizes.h"

#define BYTES   5000u
#define MISSING "missing"

struct files {
    char path[64];
    int folder;
    struct uring_queues queues;
    struct folder_chains chains;
};

static char paths[FOLDER_CHAIN_PATHS];

struct asked {
    struct read_request request;
    struct iovec piece;
    uint8_t to[BYTES];
};

static void write_file(const struct files *files, const char *name, int value) {
    uint8_t content[BYTES];
    memset(content, value, sizeof content);
    AUTO_CLOSE int fd = openat(files->folder, name, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, content, BYTES), BYTES);
}

static void open_files(struct files *files, uint32_t places, unsigned flags) {
    *files = (struct files){.path = "/var/tmp/test_folder_chain.XXXXXX", .queues.place_count = places};
    struct io_uring_params params = {.flags = flags};
    int err = io_uring_queue_init_params(8, &files->queues.uring, &params);
    if (err == -EPERM || err == -ENOSYS || err == -EINVAL)
        skip();
    assert_int_equal(err, 0);
    assert_non_null(mkdtemp(files->path));
    files->folder = open(files->path, O_PATH | O_DIRECTORY);
    assert_true(files->folder >= 0);
    write_file(files, "one", 1);
    write_file(files, "two", 2);
    assert_int_equal(io_uring_register_files_sparse(&files->queues.uring, places), 0);
    assert_int_equal(folder_chains_make(&files->chains, &files->queues, paths), 0);
}

static void close_files(struct files *files) {
    folder_chains_free(&files->chains);
    io_uring_queue_exit(&files->queues.uring);
    unlinkat(files->folder, "one", 0);
    unlinkat(files->folder, "two", 0);
    close(files->folder);
    assert_int_equal(rmdir(files->path), 0);
}

static void ask(struct files *files, struct asked *asked, const char *name) {
    const struct folder_file file = {files->folder, strcpy(folder_chains_path(&files->chains), name),
                                     strlen(name), BYTES};
    assert_true(folder_chains_has_room(&files->chains));
    *asked = (struct asked){.piece = {asked->to, BYTES}};
    asked->request = (struct read_request){.bytes = BYTES, .pieces = &asked->piece, .piece_count = 1};
    assert_true(folder_chains_take(&files->chains, &asked->request, &file));
    folder_chains_ask(&files->chains, &files->queues.uring, &asked->request, &file);
}

// Whether the completions that are there end this request's chain, and no other one; *whole, as it is reported.
static bool ended(struct files *files, const struct asked *asked, bool *whole) {
    struct io_uring_cqe *answer;
    struct read_request *request = NULL;
    while (io_uring_peek_cqe(&files->queues.uring, &answer) == 0) {
        if (folder_chain_owns(answer->user_data)) {
            bool complete;
            struct read_request *next =
                folder_chains_complete(&files->chains, answer->user_data, answer->res, &complete);
            assert_false(request && next);
            if (next)
                *whole = complete;
            request = next ? next : request;
        }
        io_uring_cqe_seen(&files->queues.uring, answer);
    }
    assert_true(!request || request == &asked->request);
    return request;
}

static bool read_whole(struct files *files, struct asked *asked) {
    bool whole;
    assert_true(io_uring_submit_and_wait(&files->queues.uring, 1) >= 0);
    folder_chains_submitted(&files->chains, &files->queues.uring);
    assert_true(ended(files, asked, &whole));
    files->chains.alone = 0;
    return whole;
}

// The kernel grants a lease for writing only if nobody else has the file open.
static bool is_open(const struct files *files, const char *name) {
    AUTO_CLOSE int fd = openat(files->folder, name, O_RDONLY);
    assert_true(fd >= 0);
    for (int tries = 0; tries < 20; tries++) { // the kernel closes a little later
        if (fcntl(fd, F_SETLEASE, F_WRLCK) == 0)
            return false;
        assert_int_equal(errno, EAGAIN);
        usleep(5000);
    }
    return true;
}

static void rest(struct files *files) {
    if (folder_chains_rest(&files->chains, &files->queues.uring))
        assert_true(io_uring_submit(&files->queues.uring) >= 0);
}

// A chain that was cut may open its file after its place has been closed, so that the next rest closes it.
static bool is_closed_in_the_end(struct files *files, const char *name) {
    bool open = true;
    for (int tries = 0; open && tries < 50; tries++) {
        rest(files);
        open = is_open(files, name);
    }
    return !open;
}

static void the_next_one_replaces_a_file(void **state) {
    (void)state;
    struct files files;
    struct asked asked;
    open_files(&files, 1, IORING_SETUP_SUBMIT_ALL);
    ask(&files, &asked, "one");
    assert_true(read_whole(&files, &asked));
    assert_int_equal(asked.to[BYTES - 1], 1);
    assert_true(is_open(&files, "one"));
    ask(&files, &asked, "two");
    assert_true(read_whole(&files, &asked));
    assert_int_equal(asked.to[BYTES - 1], 2);
    assert_false(is_open(&files, "one"));
    assert_true(is_open(&files, "two"));
    rest(&files);
    assert_false(is_open(&files, "two"));
    assert_int_equal(files.chains.keeping, 0);
    close_files(&files);
}

static void a_file_that_cannot_be_opened(void **state) {
    (void)state;
    struct files files;
    struct asked asked;
    open_files(&files, 1, IORING_SETUP_SUBMIT_ALL);
    ask(&files, &asked, "one");
    assert_true(read_whole(&files, &asked));
    ask(&files, &asked, MISSING);
    assert_false(read_whole(&files, &asked));
    assert_int_equal(asked.to[0], 0); // nor is the file that is still open there
    ask(&files, &asked, "two");
    assert_true(read_whole(&files, &asked));
    close_files(&files);
}

static void what_is_under_way_is_not_closed(void **state) {
    (void)state;
    struct files files;
    struct asked first, second;
    open_files(&files, 2, IORING_SETUP_SUBMIT_ALL);
    ask(&files, &first, "one");
    assert_true(read_whole(&files, &first));
    ask(&files, &first, "two"); // in the same place
    rest(&files);
    assert_true(read_whole(&files, &first));
    assert_int_equal(first.to[0], 2);
    ask(&files, &first, "one");
    ask(&files, &second, "two");
    assert_true(io_uring_submit_and_wait(&files.queues.uring, 2) >= 0);
    assert_int_equal(files.chains.keeping, 2);
    rest(&files);
    assert_int_equal(files.chains.keeping, 2);
    close_files(&files);
}

static void finish_one(struct files *files) {
    struct io_uring_cqe *answer;
    bool whole;
    assert_int_equal(io_uring_wait_cqe(&files->queues.uring, &answer), 0);
    assert_non_null(folder_chains_complete(&files->chains, answer->user_data, answer->res, &whole));
    assert_true(whole);
    io_uring_cqe_seen(&files->queues.uring, answer);
}

static void more_files_than_entries(void **state) {
    (void)state;
    struct files files;
    struct asked asked[40];
    open_files(&files, COUNT_OF(asked), IORING_SETUP_SUBMIT_ALL);
    for (size_t i = 0; i < COUNT_OF(asked); i += 4) {
        for (size_t j = i; j < i + 4; j++)
            ask(&files, &asked[j], "one");
        assert_true(io_uring_submit_and_wait(&files.queues.uring, 4) >=
                    0); // reported later, so the places are taken
    }
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        finish_one(&files);
    assert_int_equal(files.chains.keeping, COUNT_OF(asked));
    rest(&files);
    assert_int_equal(files.chains.keeping, 0);
    assert_false(is_open(&files, "one"));
    close_files(&files);
}

// As when the kernel has no memory for the second: it takes one entry, and the other with the next call.
static void submit_one(struct files *files) {
    struct io_uring *uring = &files->queues.uring;
    unsigned *tail = uring->sq.ktail;
    io_uring_smp_store_release(tail, uring->sq.sqe_tail);
    uring->sq.sqe_head = uring->sq.sqe_tail;
    assert_int_equal(syscall(SYS_io_uring_enter, uring->ring_fd, 1, 0, 0, NULL, 0), 1);
    folder_chains_submitted(&files->chains, uring);
}

static void the_kernel_takes_half_of_a_chain(void **state) {
    (void)state;
    static const char *const names[] = {"two", MISSING};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct files files;
        struct asked asked;
        bool whole;
        open_files(&files, 1, IORING_SETUP_SUBMIT_ALL);
        ask(&files, &asked, "one");
        assert_true(read_whole(&files, &asked));
        ask(&files, &asked, names[i]);
        submit_one(&files);
        assert_false(ended(&files, &asked, &whole)); // the other half is still to come
        assert_false(read_whole(&files, &asked));
        assert_int_equal(asked.to[0], 0);
        assert_int_equal(files.chains.free_count, 0); // nobody else gets the place
        assert_true(is_closed_in_the_end(&files, "one"));
        assert_true(is_closed_in_the_end(&files, "two"));
        assert_int_equal(files.chains.keeping, 1); // for a file that may still be opened there
        close_files(&files);
    }
}

static void what_chains_leave(void **state) {
    (void)state;
    static const char *const names[] = {"/one", "..", "../one", "a/../one", "a/.."};
    struct files files;
    struct read_request request = {.bytes = BYTES, .piece_count = 1};
    open_files(&files, 1, IORING_SETUP_SUBMIT_ALL);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct folder_file file = {files.folder, names[i], strlen(names[i]), BYTES};
        assert_false(folder_chains_take(&files.chains, &request, &file));
    }
    const struct folder_file file = {files.folder, "a.b/.c.d", strlen("a.b/.c.d"), BYTES},
                             shorter = {files.folder, "a", strlen("a"), BYTES - 1};
    assert_true(folder_chains_take(&files.chains, &request, &file));
    assert_false(folder_chains_take(&files.chains, &request, &shorter));
    close_files(&files);
}

static void where_refused_entries_separate_others(void **state) {
    (void)state;
    struct files files;
    struct read_request request = {.bytes = BYTES, .piece_count = 1};
    open_files(&files, 1, 0);
    const struct folder_file file = {files.folder, "one", strlen("one"), BYTES};
    assert_false(folder_chains_take(&files.chains, &request, &file));
    rest(&files);
    close_files(&files);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_one_replaces_a_file),
        cmocka_unit_test(a_file_that_cannot_be_opened),
        cmocka_unit_test(what_is_under_way_is_not_closed),
        cmocka_unit_test(more_files_than_entries),
        cmocka_unit_test(the_kernel_takes_half_of_a_chain),
        cmocka_unit_test(what_chains_leave),
        cmocka_unit_test(where_refused_entries_separate_others),
    };
    return cmocka_run_group_tests_name("folder_chain", tests, NULL, NULL);
}
