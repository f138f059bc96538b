// Queues that are lent to readers: they outlive them, and restricted ones do nothing but read.
#include "daemon/loader/read/uring_queues.h"
#include "tests/unit/reader_fixture.h"

static const struct fixture_shape shape = {ONE_FIELD(4096), .files = 1, .file_samples = {300}, .batch = 100,
                                           .slots = 1};

static void open_queues(struct uring_queues *queues, const struct setting *setting) {
    *queues = (struct uring_queues){0};
    uring_queues_open(queues, &setting->options, true);
    if (queues->err == -EPERM || queues->err == -ENOSYS)
        skip();
    assert_int_equal(queues->err, 0);
}

// The result of one entry, which is nobody's request.
static int ask(struct uring_queues *queues, const struct io_uring_sqe *wanted) {
    struct io_uring_cqe *answer;
    struct io_uring_sqe *entry = io_uring_get_sqe(&queues->uring);
    assert_non_null(entry);
    *entry = *wanted;
    int err = io_uring_submit_and_wait(&queues->uring, 1);
    if (err < 0)
        return err;
    assert_int_equal(io_uring_wait_cqe(&queues->uring, &answer), 0);
    int result = answer->res;
    io_uring_cqe_seen(&queues->uring, answer);
    return result;
}

// Made before it was known of what: they are used if they fit, and do the same.
static void prepared_queues(void **state) {
    (void)state;
    const unsigned depths[] = {4, 64};
    for (size_t i = 0; i < COUNT_OF(depths); i++)
        for (int folders = 0; folders < 2; folders++) {
            struct uring_queues queues;
            struct setting setting;
            set_up(&setting, &shape);
            setting.options.depth = 4;
            setting.options.delay_us = folders;
            uring_queues_prepare(&queues, depths[i], true);
            if (!queues.prepared)
                skip();
            int prepared_fd = queues.uring.ring_fd;
            unsigned entries = queues.uring.sq.ring_entries;
            uring_queues_open(&queues, &setting.options, true);
            assert_int_equal(queues.err, 0);
            assert_true(queues.fixed_files);
            if (depths[i] == 4 && !folders)
                assert_int_equal(queues.uring.ring_fd, prepared_fd);
            assert_int_equal(queues.uring.sq.ring_entries, folders ? 8 : 4);
            assert_int_equal(entries, depths[i]);
            const struct io_uring_sqe nothing = {.opcode = IORING_OP_NOP};
            assert_int_equal(ask(&queues, &nothing), queues.restricted ? -EACCES : 0);
            uring_queues_close(&queues);
            tear_down(&setting);
        }
}

static void readers_in_turn(void **state) {
    (void)state;
    struct setting setting;
    struct uring_queues queues;
    set_up(&setting, &shape);
    open_queues(&queues, &setting);
    setting.options.queues = &queues;
    for (int round = 0; round < 3; round++) {
        struct reader *reader = open_reader(URING, &setting.options);
        use_slots(&setting.fixture, 0, 1);
        if (round == 1)
            settle_all(reader);
        assert_int_equal(reader->kind, round && queues.buffers.count ? READER_URING_FIXED : READER_URING);
        struct ring_claim claim = {.count = 100};
        bool skipped[100];
        int err;
        memset(setting.fixture.ring.data, FIXTURE_UNUSED, setting.fixture.ring_bytes);
        assert_int_equal(chunk_plan_fill(&setting.plan, &claim, 0), 0);
        assert_int_equal(read_plan(reader, &setting.plan, &err, skipped), 0);
        fixture_check(&setting.fixture, &setting.plan, NULL);
        reader->close(reader);
    }
    uring_queues_close(&queues);
    uring_queues_close(&queues); // harmless
    tear_down(&setting);
}

static void queues_that_could_not_be_opened(void **state) {
    (void)state;
    struct setting setting;
    struct uring_queues queues = {.err = -EPERM};
    struct reader *reader;
    struct error error = {0};
    enum reader_reason reason;
    set_up(&setting, &shape);
    setting.options.queues = &queues;
    assert_int_equal(reader_open_uring(&setting.options, &reader, &reason, &error), -EPERM);
    assert_int_equal(reason, REASON_URING_FORBIDDEN);
    assert_non_null(strstr(error.text, "io_uring cannot be used"));
    uring_queues_close(&queues);
    tear_down(&setting);
}

static void restricted_to_reading(void **state) {
    (void)state;
    struct setting setting;
    struct uring_queues queues;
    struct io_uring_sqe entry;
    char byte;
    set_up(&setting, &shape);
    open_queues(&queues, &setting);
    assert_true(queues.restricted); // since Linux 5.10, and we need 5.11
    io_uring_prep_read(&entry, FIRST_FD, &byte, 1, 0);
    assert_int_equal(ask(&queues, &entry), 1);
    io_uring_prep_openat(&entry, AT_FDCWD, "/dev/null", O_RDONLY, 0);
    assert_int_equal(ask(&queues, &entry), -EACCES);
    io_uring_prep_write(&entry, FIRST_FD, &byte, 1, 0);
    assert_int_equal(ask(&queues, &entry), -EACCES);
    io_uring_prep_unlinkat(&entry, AT_FDCWD, "/var/tmp/test_uring_queues", 0);
    assert_int_equal(ask(&queues, &entry), -EACCES);
    io_uring_prep_read(&entry, FIRST_FD, &byte, 1, 0);
    entry.flags = IOSQE_ASYNC; // a flag that the reader does not use
    assert_int_equal(ask(&queues, &entry), -EACCES);
    int fd = FIRST_FD;
    assert_int_equal(io_uring_register_eventfd(&queues.uring, fd), -EACCES);
    assert_int_equal(io_uring_unregister_buffers(&queues.uring), -EACCES);
    assert_int_equal(io_uring_register_files_update(&queues.uring, 0, &fd, 1), -EACCES);
    uring_queues_close(&queues);
    tear_down(&setting);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prepared_queues),
        cmocka_unit_test(readers_in_turn),
        cmocka_unit_test(queues_that_could_not_be_opened),
        cmocka_unit_test(restricted_to_reading),
    };
    return cmocka_run_group_tests_name("uring_queues", tests, NULL, NULL);
}
