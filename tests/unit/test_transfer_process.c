// The supervisor's end of a transfer process, which this program plays itself: requests in order, those taken back, and
// reports.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/heritage.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/processes/transfer_process.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/lingering.h"

#define FLOOD 3000u // more than the socket takes, fewer than are kept
#define REFUSE                                                                                               \
    100u // a consumer from which on the pool is refused with a code that is not an errno, or is one

#define MUTE UINT32_MAX // a pool with which it closes its end of the channel

enum {                 // pools with which it sends what no correct process does
    UNASKED = 1000000, // the descriptor that came with the request, in a report that has none
    UNKNOWN,           // a report of unknown kind
    SHORT,             // half a report, with as many of the descriptor as there may be
    TWICE,             // the descriptor, unasked, in two reports: the second one is never read
    STRANGE_END
};

static const int32_t wrong_codes[] = {0, 5, -4096, INT32_MIN, INT32_MAX, -ENOMEM};

static uv_loop_t loop;
static struct poll_set poll_set;
static struct process_set processes;
static struct stats_region *stats;
static struct transfer_process *transfer;
static struct closer *closer;
static unsigned changes;

static void changed(struct process *process) {
    assert_ptr_equal(process->owner, &changes);
    changes++;
}

static int set_up(void **state) {
    struct error error = {0};
    closer = closer_open();
    stats = mmap(NULL, sizeof *stats, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct transfer_start start = {
        .processes = &processes,
        .poll_set = &poll_set,
        .stats = stats,
        .stats_fd = STDERR_FILENO,
        .record = 3,
        .wake_fd = STDERR_FILENO,
        .uuid = "GPU-under-test",
        .closer = closer,
        .owner = &changes,
        .changed = changed,
    };
    (void)state;
    changes = 0;
    return !closer || stats == MAP_FAILED || uv_loop_init(&loop) < 0 || poll_set_open(&poll_set, &loop) < 0 ||
                   process_set_open(&processes, &loop) < 0 ||
                   transfer_process_start(&start, &transfer, &error) < 0
               ? -1
               : 0;
}

static void end(void) {
    struct transfer_report report;
    int fd;
    process_kill(&transfer->process);
    while (transfer->process.state != PROCESS_GONE) {
        uv_run(&loop, UV_RUN_ONCE);
        while (transfer_process_receive(transfer, &report, &fd))
            close_fd(&fd);
    }
    transfer_process_release(transfer);
    poll_set_close(&poll_set);
    process_set_close(&processes);
    uv_run(&loop, UV_RUN_DEFAULT);
}

static int tear_down(void **state) {
    (void)state;
    munmap(stats, sizeof *stats);
    closer_leave(closer);
    return uv_loop_close(&loop);
}

static struct transfer_report wait_for_report(int *fd) {
    struct transfer_report report = {0};
    while (!transfer_process_receive(transfer, &report, fd))
        uv_run(&loop, UV_RUN_ONCE);
    return report;
}

static bool request(uint32_t kind, uint32_t pool, uint32_t consumer, int fd) {
    const struct transfer_request message = {.kind = kind, .pool = pool, .consumer = consumer};
    return transfer_process_send(transfer, &message, &fd, fd >= 0);
}

static void wait_until_closed(void) {
    uint64_t since = monotonic_ns();
    while (closer_count(closer, closer_account(3)) && monotonic_ns() - since < 20 * NS_PER_S)
        usleep(10000);
    assert_int_equal(closer_count(closer, closer_account(3)), 0);
}

// ---- Cases -------------------------------------------------------------------------------------------------

static void it_is_given_what_it_needs(void **state) {
    int fd;
    (void)state;
    assert_int_equal(atomic_load(&stats->gpus[3].pid), process_pid(&transfer->process));
    assert_in_range(monotonic_ns() - atomic_load(&stats->gpus[3].heartbeat_ns), 0, 10 * NS_PER_S);
    while (!changes) // its owner is marked when the report comes
        uv_run(&loop, UV_RUN_ONCE);
    struct transfer_report report = {0};
    assert_int_equal(transfer_process_receive(transfer, &report, &fd), 1);
    assert_int_equal(report.kind, TRANSFER_READY);
    assert_string_equal(report.text, "GPU-under-test");
    assert_int_equal(fd, -1);
    uint64_t now = monotonic_ns();
    assert_true(transfer_process_silent_ns(transfer, now + NS_PER_S) >= NS_PER_S);
    end();
}

static void a_descriptor_goes_and_comes_back(void **state) {
    int fd, memory = memfd_create("test", MFD_CLOEXEC);
    (void)state;
    wait_for_report(&fd);
    assert_true(request(TRANSFER_OPEN_POOL, 7, 0, memory));
    close(memory);
    struct transfer_report report = wait_for_report(&fd);
    assert_int_equal(report.kind, TRANSFER_POOL_OPEN);
    assert_int_equal(report.pool, 7);
    assert_true(fd >= 0);
    close(fd);
    end();
}

// It sleeps during that time, so that most of them wait here.
static void requests_that_wait_keep_their_order(void **state) {
    int fd;
    (void)state;
    wait_for_report(&fd);
    request(TRANSFER_CLOSE_POOL, 0, 0, -1); // makes it sleep
    for (uint32_t i = 1; i < FLOOD; i++)
        assert_true(request(TRANSFER_CLOSE_POOL, i, 0, -1));
    assert_true(transfer->unsent_count > 0);
    for (uint32_t i = 0; i < FLOOD; i++)
        assert_int_equal(wait_for_report(&fd).pool, i);
    assert_int_equal(transfer->unsent_count, 0);
    end();
}

static void a_consumer_that_was_not_added_yet_is_taken_back(void **state) {
    int fd;
    (void)state;
    wait_for_report(&fd);
    request(TRANSFER_CLOSE_POOL, 0, 0, -1);
    while (!transfer->unsent_count)
        request(TRANSFER_CLOSE_POOL, 1, 0, -1);
    unsigned before = open_descriptors();
    uint32_t waiting = transfer->unsent_count;
    assert_true(request(TRANSFER_ADD_CONSUMER, 1, 5, STDERR_FILENO));
    assert_true(request(TRANSFER_ADD_CONSUMER, 2, 5, STDERR_FILENO));
    assert_int_equal(open_descriptors(), before + 2);
    assert_false(request(TRANSFER_REMOVE_CONSUMER, 2, 5, -1));
    assert_int_equal(transfer->unsent_count, waiting + 1);
    wait_until_closed();
    assert_int_equal(open_descriptors(), before + 1);
    assert_true(request(TRANSFER_REMOVE_CONSUMER, 2, 5, -1)); // that one is not waiting any longer
    end();
    wait_until_closed();
    assert_true(open_descriptors() < before);
}

static void one_that_cannot_be_told_everything_is_killed(void **state) {
    int fd;
    (void)state;
    wait_for_report(&fd);
    request(TRANSFER_CLOSE_POOL, 0, 0, -1);
    for (uint32_t i = 0; transfer->process.state == PROCESS_RUNNING; i++) {
        assert_true(i < 100000);
        request(TRANSFER_CLOSE_POOL, 1, 0, -1);
    }
    assert_int_equal(transfer->process.state, PROCESS_KILLED);
    end();
}

static void what_it_said_last_is_heard(void **state) {
    int fd;
    (void)state;
    wait_for_report(&fd);
    request(TRANSFER_REMOVE_CONSUMER, 9, 9, -1); // makes it report, and exit
    while (transfer->process.state != PROCESS_GONE)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(transfer->process.exit_status, 5);
    assert_int_equal(wait_for_report(&fd).kind, TRANSFER_LOST);
    struct transfer_report report;
    assert_int_equal(transfer_process_receive(transfer, &report, &fd), 0);
    assert_true(request(TRANSFER_CLOSE_POOL, 1, 0, -1)); // nobody is there, and nothing happens
    end();
}

// Whatever it says, clients are told a positive errno and a sentence that ends and is text.
static void a_failure_always_has_an_errno(void **state) {
    int fd;
    (void)state;
    wait_for_report(&fd);
    for (uint32_t i = 0; i < COUNT_OF(wrong_codes); i++) {
        request(TRANSFER_REMOVE_CONSUMER, 7, REFUSE + i, -1);
        struct transfer_report report = wait_for_report(&fd);
        assert_int_equal(report.kind, TRANSFER_POOL_REFUSED);
        assert_int_equal(report.code, wrong_codes[i] == -ENOMEM ? -ENOMEM : -EIO);
        assert_int_equal(strnlen(report.text, sizeof report.text), sizeof report.text - 1);
        assert_memory_equal(report.text, "xxxxxxx??x", 10);
    }
    end();
}

// It lives on, but could never report anything.
static void one_that_closes_its_end_is_killed(void **state) {
    struct transfer_report report;
    int fd;
    (void)state;
    wait_for_report(&fd);
    request(TRANSFER_CLOSE_POOL, MUTE, 0, -1);
    while (transfer->process.state == PROCESS_RUNNING) {
        uv_run(&loop, UV_RUN_ONCE);
        assert_false(transfer_process_receive(transfer, &report, &fd));
    }
    assert_int_equal(transfer->process.state, PROCESS_KILLED);
    end();
}

// It is killed, and closing what it sent, which takes seconds, keeps nobody from anything.
static void one_that_sends_nonsense_is_killed(void **state) {
    struct transfer_report report;
    int fd, quiet, poisoned;
    uint32_t pool = *(uint32_t *)*state;
    *state = NULL;
    set_up(NULL);
    wait_for_report(&fd);
    unsigned before = open_descriptors();
    poisoned = lingering_socket(&quiet);
    request(TRANSFER_CLOSE_POOL, pool, 0, poisoned);
    close(poisoned);
    uint64_t since = monotonic_ns();
    while (transfer->process.state == PROCESS_RUNNING) {
        uv_run(&loop, UV_RUN_ONCE);
        assert_false(transfer_process_receive(transfer, &report, &fd));
    }
    assert_int_equal(transfer->process.state, PROCESS_KILLED);
    end();
    assert_true(monotonic_ns() - since < NS_PER_S);
    assert_int_not_equal(closer_count(closer, closer_account(3)), 0);
    assert_int_equal(closer_count(closer, closer_account(2)), 0);
    wait_until_closed();
    close(quiet);
    assert_true(open_descriptors() < before);
}

// ---- As the transfer process -------------------------------------------------------------------------------

static void send_nonsense(uint32_t which, int fd) {
    struct transfer_report report = {.kind = which == UNKNOWN ? TRANSFER_LOST + 1 : TRANSFER_POOL_CLOSED};
    int fds[FDPASS_MOST];
    for (uint32_t i = 0; i < FDPASS_MOST; i++)
        fds[i] = fd;
    size_t bytes = which == SHORT ? sizeof report / 2 : sizeof report;
    for (int times = 1 + (which == TWICE); times; times--)
        fdpass_send(HERITAGE_CONTROL, &report, bytes, lend_fds(fds, which == SHORT ? FDPASS_MOST : 1), 0);
    close(fd);
    pause();
}

static int answer(const struct transfer_request *got, const int *fds, uint32_t count) {
    struct transfer_report report = {.kind = TRANSFER_POOL_CLOSED, .pool = got->pool};
    if (got->kind == TRANSFER_CLOSE_POOL && got->pool == 0)
        usleep(300000);
    if (got->kind == TRANSFER_CLOSE_POOL && got->pool == MUTE) {
        close(HERITAGE_CONTROL);
        pause();
    }
    if (got->kind == TRANSFER_CLOSE_POOL && got->pool >= UNASKED && got->pool < STRANGE_END)
        send_nonsense(got->pool, fds[0]);
    if (got->kind == TRANSFER_OPEN_POOL)
        report.kind = TRANSFER_POOL_OPEN;
    if (got->kind == TRANSFER_REMOVE_CONSUMER && got->consumer == 9)
        report.kind = TRANSFER_LOST;
    if (got->kind == TRANSFER_REMOVE_CONSUMER && got->consumer >= REFUSE) {
        report.kind = TRANSFER_POOL_REFUSED;
        report.code = wrong_codes[got->consumer - REFUSE];
        memset(report.text, 'x', sizeof report.text);
        report.text[7] = '\n';
        report.text[8] = (char)0xd0; // no UTF-8
    }
    return control_send(HERITAGE_CONTROL, &report, sizeof report, fds, count) < 0 ? 1
           : report.kind == TRANSFER_LOST                                         ? 5
                                                                                  : 0;
}

static int play(void) {
    struct transfer_settings settings = {0};
    struct transfer_report ready = {.kind = TRANSFER_READY};
    struct transfer_request got;
    int fds[CONTROL_MAX_DESCRIPTORS], status = 0;
    struct received_fds from = receive_into(fds, CONTROL_MAX_DESCRIPTORS);
    alarm(60);
    if (pread(HERITAGE_SETTINGS, &settings, sizeof settings, 0) != sizeof settings ||
        settings.stats_record != 3)
        return 2;
    memcpy(ready.text, settings.uuid, sizeof settings.uuid);
    if (control_send(HERITAGE_CONTROL, &ready, sizeof ready, NULL, 0) < 0)
        return 3;
    while (!status) {
        int received = control_receive(HERITAGE_CONTROL, &got, sizeof got, &from);
        if (received < 0)
            return 4;
        if (received == 0)
            usleep(1000);
        else
            status = answer(&got, fds, from.count);
        received_fds_close(&from);
    }
    return status;
}

#define NONSENSE(what, pool)                                                                                 \
    {                                                                                                        \
        .name = "one that sends " what " is killed", .test_func = one_that_sends_nonsense_is_killed,         \
        .teardown_func = tear_down, .initial_state = &(uint32_t) {                                           \
            pool                                                                                             \
        }                                                                                                    \
    }
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--role=transfer") == 0)
        return play();
    const struct CMUnitTest tests[] = {
        TEST(it_is_given_what_it_needs),
        TEST(a_descriptor_goes_and_comes_back),
        TEST(requests_that_wait_keep_their_order),
        TEST(a_consumer_that_was_not_added_yet_is_taken_back),
        TEST(one_that_cannot_be_told_everything_is_killed),
        TEST(what_it_said_last_is_heard),
        TEST(a_failure_always_has_an_errno),
        TEST(one_that_closes_its_end_is_killed),
        NONSENSE("a descriptor nobody asked for", UNASKED),
        NONSENSE("an unknown report", UNKNOWN),
        NONSENSE("half a report with many descriptors", SHORT),
        NONSENSE("descriptors that are never received", TWICE),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
