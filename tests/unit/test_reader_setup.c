// What the readers do besides reading: delays, closing, registering, and saying what they are.
#include "base/error.h"
#include "base/time.h"
#include "daemon/loader/read/readers.h"
#include "shm/ring_loader.h"
#include "tests/unit/reader_fixture.h"

#include <linux/capability.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void delays_overlap(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(4096), .files = 1, .file_samples = {300}, .batch = 256,
                                  .slots = 1};
    struct setting setting;
    set_up(&setting, &shape);
    setting.options.depth = 256;
    setting.options.delay_us = 20000;
    struct reader *reader;
    assert_int_equal(reader_open_mapped(&setting.options, &reader, NULL, NULL), -ENOTSUP);
    for (int which = 0; which < READERS; which++) {
        if (which == MAPPED)
            continue;
        reader = open_reader(which, &setting.options);
        struct ring_claim claim = {.count = 256};
        for (uint32_t i = 0; i < 256; i++)
            setting.plan.samples[i] = i;
        assert_int_equal(chunk_plan_fill(&setting.plan, &claim, 0), 0);
        int err;
        bool skipped[256];
        uint64_t start = monotonic_ns();
        assert_int_equal(read_plan(reader, &setting.plan, &err, skipped), 0);
        uint64_t took_us = (monotonic_ns() - start) / 1000;
        fixture_check(&setting.fixture, &setting.plan, NULL);
        assert_in_range(took_us, 20000, 1000000); // one after another they take 5 s
        reader->close(reader);
    }
    tear_down(&setting);
}

// Closing in mid-work loses nothing: the requests' memory is the caller's again.
static void close_in_flight(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(4096), .files = 1, .file_samples = {300}, .batch = 100,
                                  .slots = 1};
    struct setting setting;
    set_up(&setting, &shape);
    setting.options.depth = 100;
    for (int which = 0; which < READERS; which++) {
        setting.options.delay_us = which == MAPPED ? 0 : 300000;
        struct reader *reader = open_reader(which, &setting.options);
        struct ring_claim claim = {.count = 100};
        assert_int_equal(chunk_plan_fill(&setting.plan, &claim, 0), 0);
        for (uint32_t i = 0; i < 100; i++)
            assert_int_equal(reader->submit(reader, &setting.plan.requests[i]), 0);
        if (which != MAPPED)
            assert_null(reader->reap(reader, 0));
        uint64_t start = monotonic_ns();
        reader->close(reader);
        assert_true(monotonic_ns() - start < UINT64_C(2000000000));
        memset(setting.fixture.ring.data, FIXTURE_UNUSED, setting.fixture.ring_bytes);
        usleep(which == MAPPED ? 0 : 400000); // a read that was still to come would show
        for (uint64_t at = 0; at < setting.fixture.ring_bytes; at++)
            assert_int_equal(setting.fixture.ring.data[at], FIXTURE_UNUSED);
    }
    tear_down(&setting);
}

// The ring keeps life_fd open until it is gone itself.
static void life_descriptor(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(100), .files = 1, .file_samples = {30}, .batch = 10, .slots = 1};
    struct setting setting;
    set_up(&setting, &shape);
    int life[2];
    assert_int_equal(pipe(life), 0);
    setting.options.life_fd = life[1];
    struct reader *reader = open_reader(URING, &setting.options);
    close(life[1]);
    struct pollfd ended = {.fd = life[0]};
    assert_int_equal(poll(&ended, 1, 50), 0);
    reader->close(reader);
    assert_int_equal(poll(&ended, 1, 5000), 1);
    assert_true(ended.revents & POLLHUP);
    close(life[0]);
    tear_down(&setting);
}

static void limit_memlock(rlim_t bytes) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    if (setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){bytes, bytes}) < 0 ||
        syscall(SYS_capset, &header, none) < 0)
        _exit(99);
}

// In a child that may lock `bytes`. Exits with what it met.
enum {
    UNREGISTERED = 10,
    REFUSED
};
static void read_with_memlock(struct setting *setting, rlim_t bytes) {
    limit_memlock(bytes);
    enum reader_reason reason = REASON_NONE;
    struct reader *reader;
    int err = reader_open_uring(&setting->options, &reader, &reason, NULL);
    if (err < 0)
        _exit(err == -ENOMEM && reason == REASON_MEMLOCK ? REFUSED : 2);
    settle_all(reader);
    if (reader->reason != REASON_MEMLOCK)
        _exit(1);
    struct ring_claim claim = {.count = 256};
    bool skipped[256];
    if (reader->kind != READER_URING || chunk_plan_fill(&setting->plan, &claim, 0) < 0)
        _exit(3);
    _exit(read_plan(reader, &setting->plan, &err, skipped) == 0 ? UNREGISTERED : 4);
}

static int exit_of_child(struct setting *setting, rlim_t bytes) {
    pid_t child = fork();
    if (child == 0)
        read_with_memlock(setting, bytes);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void without_locked_memory(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(784), .files = 1, .file_samples = {300}, .batch = 256,
                                  .slots = 3};
    struct setting setting;
    set_up(&setting, &shape);
    use_slots(&setting.fixture, 0, shape.slots);
    struct reader *reader = open_reader(URING, &setting.options);
    assert_int_equal(reader->kind, READER_URING);
    settle_all(reader);
    assert_int_equal(reader->kind, READER_URING_FIXED);
    reader->close(reader);
    // Enough for io_uring's own queues, which newer kernels count, too, but not for the ring. What an ordinary user has
    // locked counts for all of his processes, and is given back a little after its io_uring is closed.
    int little = exit_of_child(&setting, 256u << 10);
    for (int tries = 0; little == REFUSED && tries < 50; tries++) {
        usleep(100000);
        little = exit_of_child(&setting, 256u << 10);
    }
    assert_int_equal(little, UNREGISTERED);
    struct ring_claim claim = {.count = 256}; // the child filled the shared ring
    assert_int_equal(chunk_plan_fill(&setting.plan, &claim, 0), 0);
    fixture_check(&setting.fixture, &setting.plan, NULL);
    int none = exit_of_child(&setting, 0);
    assert_true(none == REFUSED || none == UNREGISTERED);
    tear_down(&setting);
}

static void names(void **state) {
    (void)state;
    for (uint32_t i = 0; i <= READER_PREAD; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(reader_kind_name(i), reader_kind_name(k));
    for (uint32_t i = 1; i <= REASON_UNMAPPED; i++)
        assert_string_not_equal(reader_reason_text(i), reader_reason_text(i - 1));
    assert_string_equal(reader_kind_name(77), "?");
    assert_string_equal(reader_reason_text(77), "?");
}

// By their names in feedd.conf.
static void every_mode_has_a_reader(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(784), .files = 1, .file_samples = {30}, .batch = 16, .slots = 3};
    struct setting setting;
    struct error error = {0};
    set_up(&setting, &shape);
    for (enum io_mode mode = IO_URING; mode <= IO_PREAD; mode++) {
        struct reader *reader = NULL;
        enum reader_reason reason;
        assert_int_equal(readers_open(mode, &setting.options, &reader, &reason, &error), 0);
        if (mode == IO_URING && reader->kind == READER_PREAD)
            assert_int_not_equal(reason, REASON_NONE);
        else
            assert_non_null(strstr(reader_kind_name(reader->kind), io_mode_name(mode)));
        reader->close(reader);
    }
    struct reader *none;
    enum reader_reason reason;
    assert_int_equal(readers_open(IO_AUTO, &setting.options, &none, &reason, &error), -EINVAL);
    assert_int_equal(readers_open((enum io_mode)99, &setting.options, &none, &reason, &error), -EINVAL);
    tear_down(&setting);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),           cmocka_unit_test(every_mode_has_a_reader),
        cmocka_unit_test(delays_overlap),  cmocka_unit_test(close_in_flight),
        cmocka_unit_test(life_descriptor), cmocka_unit_test(without_locked_memory),
    };
    return cmocka_run_group_tests_name("reader_setup", tests, NULL, NULL);
}
