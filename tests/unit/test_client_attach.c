// Connecting and attaching: every way it can go wrong has its code and its sentence, and leaves nothing open.
#include <sys/mman.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/fake_feedd.h"

// Opens against `options`, expects `code` and a sentence that holds `part`.
static void expect_failure(const struct feed_options *options, int code, const char *part) {
    struct feed *feed;
    struct feed_batch batch;
    char token[FEED_TOKEN_BYTES];
    int opened = feed_open(&feed, options);
    if (opened != code || !strstr(feed_strerror(feed), part))
        fail_msg("wanted %d and \"%s\", got %d and \"%s\"", code, part, opened, feed_strerror(feed));
    assert_int_equal(feed_next(feed, &batch, 0), code);
    assert_int_equal(feed_token(feed, token), -ENOTCONN);
    feed_close(feed);
}

static void expect_failure_of(void (*script)(struct fake *), int code, const char *part) {
    unsigned before = open_descriptors();
    struct fake fake;
    fake_start(&fake, script);
    struct feed_options options = fake_options(&fake);
    expect_failure(&options, code, part);
    fake_stop(&fake);
    assert_int_equal(open_descriptors(), before);
}

// ---- Before anything is sent -----------------------------------------------------------------------

static void impossible_options_are_refused_without_a_daemon(void **state) {
    (void)state;
    char long_name[100];
    memset(long_name, 'x', sizeof long_name);
    long_name[64] = 0;
    const struct {
        struct feed_options options;
        int code;
        const char *part;
    } cases[] = {
        {{.batch_size = 1}, -EINVAL, "dataset"},
        {{.dataset = "", .batch_size = 1}, -EINVAL, "dataset"},
        {{.dataset = long_name, .batch_size = 1}, -EINVAL, "63"},
        {{.dataset = "d", .share = long_name, .batch_size = 1}, -EINVAL, "63"},
        {{.dataset = "d"}, -EINVAL, "batch_size 0"},
        {{.dataset = "d", .batch_size = 16777216}, -EINVAL, "batch_size 16777216"},
        {{.dataset = "d", .batch_size = 1, .rank = 1}, -EINVAL, "rank 1 of world size 1"},
        {{.dataset = "d", .batch_size = 1, .rank = 2, .world_size = 2}, -EINVAL, "rank 2"},
        {{.dataset = "d", .batch_size = 1, .world_size = 2, .local_world_size = 3},
         -EINVAL,
         "local_world_size 3"},
        {{.dataset = "d", .batch_size = 1, .device = "gpu0"}, -EINVAL, "gpu0"},
        {{.dataset = "d", .batch_size = 1, .wait_for = 2}, -EINVAL, "wait_for 2 needs a share"},
        {{.dataset = "d", .batch_size = 1, .wait_for = 2, .world_size = 2, .share = ""},
         -EINVAL,
         "wait_for 2 needs a share"},
        {{.dataset = "d", .batch_size = 1, .wait_for = 1, .socket = "/proc/self/status"},
         -ECONNREFUSED,
         "/proc/self/status: that file is not a socket"},
        {{.dataset = "d", .batch_size = 1, .socket = "/nonexistent/sock"},
         -ECONNREFUSED,
         "systemctl status feedd"},
        {{.dataset = "d", .batch_size = 1, .device = "cpu", .socket = "/nonexistent/sock"},
         -ECONNREFUSED,
         "/nonexistent"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        expect_failure(&cases[i].options, cases[i].code, cases[i].part);
    struct feed_options too_long = {.dataset = "d", .batch_size = 1};
    char path[200];
    memset(path, 'x', sizeof path);
    path[150] = 0;
    too_long.socket = path;
    expect_failure(&too_long, -ENAMETOOLONG, "too long");
}

static void a_socket_nobody_listens_on_says_so(void **state) {
    (void)state;
    struct fake fake = {.ring_fd = -1, .read_fd = -1};
    fake_listen(&fake, 1);
    close_fd(&fake.listener);
    struct feed_options options = fake_options(&fake);
    expect_failure(&options, -ECONNREFUSED, "nothing accepts connections");
    fake_stop(&fake);
}

static void the_environment_names_the_socket(void **state) {
    (void)state;
    struct feed_options options = {.dataset = "d", .batch_size = 1};
    setenv("FEEDD_SOCKET", "/nonexistent/from-environment", 1);
    expect_failure(&options, -ECONNREFUSED, "/nonexistent/from-environment");
    unsetenv("FEEDD_SOCKET");
}

static void a_full_accept_queue_is_waited_for_until_the_deadline(void **state) {
    (void)state;
    struct fake fake;
    int filler AUTO_CLOSE = -1;
    fake_listen_full(&fake, &filler);
    struct feed_options options = fake_options(&fake);
    options.connect_timeout_ms = 100;
    uint64_t start = monotonic_ns();
    expect_failure(&options, -ETIMEDOUT, "queue is full");
    assert_in_range(monotonic_ns() - start, 100000000, FAKE_LATE_NS);
    fake_stop(&fake);
}

// ---- Hello -----------------------------------------------------------------------------------------

static void speak_version_2(struct fake *fake) {
    fake_welcome(fake, 2);
}

static void refuse_hello(struct fake *fake) {
    fake_receive(fake);
    fake_error(fake, EBUSY, "user nobody has 8 of 8 sessions open");
}

static void vanish_at_hello(struct fake *fake) {
    fake_receive(fake);
}

static void answer_hello_with_end(struct fake *fake) {
    fake_receive(fake);
    fake_end(fake);
}

static void answer_hello_with_garbage(struct fake *fake) {
    fake_receive(fake);
    FAKE_CHECK(fake, write(fake->peer, "\3\0\0\0\377\377\377", 7) == 7);
    fake_linger(fake);
}

static void answer_hello_in_another_language(struct fake *fake) {
    fake_receive(fake);
    FAKE_CHECK(fake, write(fake->peer, "HTTP/1.1 400 Bad Request\r\n", 26) == 26);
    fake_linger(fake);
}

static void welcome_with_a_descriptor(struct fake *fake) {
    FAKE_CHECK(fake, frame_attach_fd(&fake->writer, fake->read_fd) == 0);
    fake_welcome(fake, PROTO_VERSION);
    fake_linger(fake);
}

static void hello_goes_wrong_in_words(void **state) {
    (void)state;
    expect_failure_of(speak_version_2, -EPROTO, "speaks protocol version 2");
    expect_failure_of(refuse_hello, -EBUSY, "user nobody has 8 of 8 sessions open");
    expect_failure_of(vanish_at_hello, -ECONNRESET, "closed the connection");
    expect_failure_of(answer_hello_with_end, -EPROTO, "not a feedd");
    expect_failure_of(answer_hello_with_garbage, -EPROTO, "not a message");
    expect_failure_of(answer_hello_in_another_language, -EPROTO, "longer than");
    expect_failure_of(welcome_with_a_descriptor, -EPROTO, "descriptors");
}

static void a_silent_daemon_is_given_up_in_time(void **state) {
    (void)state;
    struct fake fake;
    fake_start(&fake, fake_linger);
    struct feed_options options = fake_options(&fake);
    options.connect_timeout_ms = 120;
    uint64_t start = monotonic_ns();
    expect_failure(&options, -ETIMEDOUT, "does not answer");
    assert_in_range(monotonic_ns() - start, 120000000, FAKE_LATE_NS);
    fake_stop(&fake);
}

// ---- Attach ----------------------------------------------------------------------------------------

static void refuse_to_attach(struct fake *fake) {
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    fake_error(fake, ENOENT, "there is no dataset numbers: feedctl datasets lists what there is");
}

static void attach_with(struct fake *fake, int fd) {
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    fake_attached(fake, fd);
    fake_linger(fake);
}

static void attach_without_a_ring(struct fake *fake) {
    attach_with(fake, -1);
}
static void attach_with_a_socket(struct fake *fake) {
    attach_with(fake, fake->listener);
}

static void attach_with_an_empty_file(struct fake *fake) {
    int fd AUTO_CLOSE = memfd_create("empty", MFD_CLOEXEC);
    attach_with(fake, fd);
}

static void attach_without_credit(struct fake *fake) {
    fake->prefetch = 0;
    attach_with(fake, fake->read_fd);
}

static void attach_with_another_ring(struct fake *fake) {
    fake->ring.control->header.batch_size = FAKE_BATCH - 1;
    attach_with(fake, fake->read_fd);
}

static void attaching_goes_wrong_in_words(void **state) {
    (void)state;
    expect_failure_of(refuse_to_attach, -ENOENT, "feedctl datasets lists");
    expect_failure_of(attach_without_a_ring, -EPROTO, "0 descriptors");
    expect_failure_of(attach_with_a_socket, -EPROTO, "ring");
    expect_failure_of(attach_with_an_empty_file, -EPROTO, "ring");
    expect_failure_of(attach_without_credit, -EPROTO, "not the one asked for");
    expect_failure_of(attach_with_another_ring, -EPROTO, "not the one asked for");
}

static void check_attach(struct fake *fake) {
    fake_welcome(fake, PROTO_VERSION);
    const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    const Feedd__Attach *attach = message ? message->attach : NULL;
    FAKE_CHECK(fake, attach && strcmp(attach->dataset, "numbers") == 0 && strcmp(attach->share, "both") == 0);
    FAKE_CHECK(fake, attach && attach->batch_size == FAKE_BATCH && attach->shuffle && attach->drop_last);
    FAKE_CHECK(fake, attach && attach->seed == 7 && attach->epochs == 2 && attach->wait_for == 3);
    FAKE_CHECK(fake, attach && attach->world_size == 1 && attach->rank == 0 && attach->prefetch == 9);
    FAKE_CHECK(fake, attach && attach->max_lag_s == 4 && attach->ring_bytes == 5 && !*attach->resume);
    fake_attached(fake, fake->read_fd);
    fake_linger(fake);
}

static void an_open_handle_describes_its_feed(void **state) {
    (void)state;
    unsigned before = open_descriptors();
    struct fake fake;
    fake_start(&fake, check_attach);
    struct feed_options options = fake_options(&fake);
    options.share = "both";
    options.drop_last = true;
    options.epochs = 2;
    options.wait_for = 3;
    options.prefetch = 9;
    options.max_lag_s = 4;
    options.ring_bytes = 5;
    struct feed *feed;
    assert_int_equal(feed_open(&feed, &options), 0);
    assert_string_equal(feed_strerror(feed), "");
    const struct feed_description *description = feed_describe(feed);
    assert_string_equal(description->dataset, "numbers");
    assert_int_equal(description->samples, FAKE_SAMPLES);
    assert_int_equal(description->batches_per_epoch, FAKE_SAMPLES / FAKE_BATCH);
    assert_int_equal(description->field_count, 2);
    assert_string_equal(description->field[0].name, "image");
    assert_int_equal(description->field[0].dimensions, 3);
    assert_int_equal(description->field[0].shape[0], FAKE_BATCH);
    assert_int_equal(description->field[0].shape[2], 5);
    assert_int_equal(description->field[0].bytes, FAKE_BATCH * 20);
    assert_int_equal(description->field[1].dtype, FEED_I64);
    assert_int_equal(description->field[1].dimensions, 1);
    assert_int_equal(description->start_epoch, 3);
    assert_int_equal(description->start_consumed, 40);
    assert_int_equal(description->prefetch, 16);
    assert_int_equal(description->slots, FAKE_SLOTS);
    assert_true(fcntl(feed_fd(feed), F_GETFD) & FD_CLOEXEC);
    feed_close(feed);
    fake_stop(&fake);
    assert_int_equal(open_descriptors(), before);
}

// ---- A ring that lies ------------------------------------------------------------------------------

// What a loader in foreign hands could do: it can write into all of the ring.
static void change_the_header(struct fake *fake) {
    fake_open(fake);
    fake_fill(fake, 0, 5);
    fake_await_sleep(fake);
    fake->ring.control->header.fields[0].slot_offset = UINT64_C(1) << 40;
    fake->ring.control->header.fields[1].sample_bytes = UINT64_C(1) << 40;
    fake->ring.control->header.batch_size = UINT32_MAX;
    fake_send_grant(fake, 5, (uint32_t[]){0}, 1);
    fake_linger(fake);
}

static void a_header_that_changes_later_leads_nowhere(void **state) {
    (void)state;
    struct fake fake;
    fake_start(&fake, change_the_header);
    struct feed *feed = fake_client(&fake);
    struct feed_batch batch;
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    uint64_t distance =
        (uint64_t)((const uint8_t *)batch.field[1].data - (const uint8_t *)batch.field[0].data);
    assert_in_range(distance, FAKE_BATCH * 20, RING_PAGE);
    assert_int_equal(batch.field[1].bytes, FAKE_BATCH * 8);
    assert_int_equal(*(const uint8_t *)batch.field[0].data, 5);
    feed_close(feed);
    fake_stop(&fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_options_are_refused_without_a_daemon),
        cmocka_unit_test(a_socket_nobody_listens_on_says_so),
        cmocka_unit_test(the_environment_names_the_socket),
        cmocka_unit_test(a_full_accept_queue_is_waited_for_until_the_deadline),
        cmocka_unit_test(hello_goes_wrong_in_words),
        cmocka_unit_test(a_silent_daemon_is_given_up_in_time),
        cmocka_unit_test(attaching_goes_wrong_in_words),
        cmocka_unit_test(an_open_handle_describes_its_feed),
        cmocka_unit_test(a_header_that_changes_later_leads_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
