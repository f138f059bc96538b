// Views that a program brings, with a daemon that has them, wants them, refuses them, or goes away meanwhile.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/sizes.h"
#include "base/time.h"
#include "tests/unit/descriptors.h"
#include "tests/unit/fake_feedd.h"

#define MANY 60000u // numbers: more than a socket and libfeed's buffer take before the daemon reads

static const int16_t few[] = {3, 1, -4};
static const uint64_t few_words[] = {3, 1, (uint64_t)-4};
static uint32_t many[MANY];

static struct feed_view view_of_few(void) {
    return (struct feed_view){
        .bytes = sizeof(struct feed_view), .kind = FEED_INDICES, .data = few, .count = 3, .dtype = FEED_I16};
}

static struct feed_view view_of_many(void) {
    for (uint32_t i = 0; i < MANY; i++)
        many[i] = i * 7;
    return (struct feed_view){.bytes = sizeof(struct feed_view),
                              .kind = FEED_INDICES,
                              .data = many,
                              .count = MANY,
                              .dtype = FEED_U32};
}

// ---- The script's half ---------------------------------------------------------------------------------------

static void say_brought(struct fake *fake) {
    Feedd__Brought brought = FEEDD__BROUGHT__INIT;
    brought.samples = 3;
    FAKE_SEND(fake, BROUGHT, brought, &brought);
}

static void say_wanted(struct fake *fake) {
    Feedd__Wanted wanted = FEEDD__WANTED__INIT;
    FAKE_SEND(fake, WANTED, wanted, &wanted);
}

static void expect_bring(struct fake *fake, const Feedd__Bring *right) {
    fake_welcome(fake, PROTO_VERSION);
    const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_BRING);
    const Feedd__Bring *bring = message ? message->bring : NULL;
    FAKE_CHECK(fake, bring && strcmp(bring->dataset, "numbers") == 0);
    FAKE_CHECK(fake, bring && bring->kind == right->kind && bring->begin == right->begin);
    FAKE_CHECK(fake, bring && bring->end == right->end && bring->seed == right->seed);
    FAKE_CHECK(fake, bring && bring->count == right->count && bring->dtype == right->dtype);
    FAKE_CHECK(fake, bring && bring->hash == right->hash && bring->epoch_samples == right->epoch_samples);
}

static Feedd__Bring list_of(const uint64_t *words, uint64_t count, uint32_t dtype) {
    Feedd__Bring bring = FEEDD__BRING__INIT;
    bring.kind = FEED_INDICES;
    bring.count = count;
    bring.dtype = dtype;
    bring.hash = XXH3_64bits(words, count * sizeof *words);
    return bring;
}

static void attach_and_linger(struct fake *fake) {
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    fake_attached(fake, fake->read_fd);
    fake_linger(fake);
}

// Numbers first, first + 7, ...
static void expect_pieces(struct fake *fake, uint64_t count) {
    for (uint64_t at = 0; at < count; at += PROTO_PIECE_WORDS) {
        const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_PIECE);
        uint64_t here = min_u64(PROTO_PIECE_WORDS, count - at), word;
        FAKE_CHECK(fake, message && message->piece->words.len == here * sizeof word);
        for (uint64_t i = 0; message && i < here; i++) {
            memcpy(&word, message->piece->words.data + i * sizeof word, sizeof word);
            FAKE_CHECK(fake, word == (at + i) * 7);
        }
    }
}

static void make_many_words(uint64_t *words) {
    for (uint64_t i = 0; i < MANY; i++)
        words[i] = i * 7;
}

static void expect_many(struct fake *fake) {
    static uint64_t words[MANY];
    make_many_words(words);
    const Feedd__Bring right = list_of(words, MANY, FEED_U32);
    expect_bring(fake, &right);
}

// ---- What is brought -----------------------------------------------------------------------------------------

static void has_it(struct fake *fake) {
    const Feedd__Bring right = list_of(few_words, 3, FEED_I16);
    expect_bring(fake, &right);
    say_brought(fake);
    attach_and_linger(fake);
}

static void wants_it(struct fake *fake) {
    expect_many(fake);
    say_wanted(fake);
    nanosleep(&(struct timespec){.tv_nsec = 100 * NS_PER_MS}, NULL); // the socket is full meanwhile
    expect_pieces(fake, MANY);
    say_brought(fake);
    attach_and_linger(fake);
}

static void expect_split(struct fake *fake) {
    Feedd__Bring right = FEEDD__BRING__INIT;
    right.kind = FEED_SPLIT;
    right.begin = 250000;
    right.end = 1000000;
    right.seed = 9;
    expect_bring(fake, &right);
    say_brought(fake);
    attach_and_linger(fake);
}

static void expect_weights(struct fake *fake) {
    static const uint64_t words[] = {0x3f800000, 0, 0x40000000}; // 1, 0, 2
    Feedd__Bring right = list_of(words, 3, FEED_F32);
    right.kind = FEED_WEIGHTS;
    right.epoch_samples = 100;
    expect_bring(fake, &right);
    say_brought(fake);
    attach_and_linger(fake);
}

static void open_with(void (*script)(struct fake *), const struct feed_view *view) {
    unsigned before = open_descriptors();
    struct fake fake;
    struct feed *feed;
    fake_start(&fake, script);
    const struct feed_options options = fake_options(&fake);
    int err = feed_open_view(&feed, &options, view);
    if (err)
        fail_msg("feed_open_view: %d %s", err, feed_strerror(feed));
    feed_close(feed);
    fake_stop(&fake);
    assert_int_equal(open_descriptors(), before);
}

static void a_view_that_the_daemon_has(void **state) {
    (void)state;
    const struct feed_view view = view_of_few();
    open_with(has_it, &view);
}

static void a_view_that_the_daemon_wants(void **state) {
    (void)state;
    const struct feed_view view = view_of_many();
    open_with(wants_it, &view);
}

static void parts_and_weights(void **state) {
    (void)state;
    static const float weights[] = {1, 0, 2};
    struct feed_view view = {
        .bytes = sizeof view, .kind = FEED_SPLIT, .begin = 250000, .end = 1000000, .seed = 9};
    open_with(expect_split, &view);
    view = (struct feed_view){.bytes = sizeof view, .kind = FEED_WEIGHTS, .data = weights, .count = 3};
    view.dtype = FEED_F32;
    view.epoch_samples = 100;
    open_with(expect_weights, &view);
}

// ---- Daemons that go away --------------------------------------------------------------------------------------

static void comes_back_without_it(struct fake *fake) {
    expect_many(fake);
    say_brought(fake);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    fake_attached(fake, fake->read_fd);
    fake_await_sleep(fake);
    fake_die_and_return(fake);
    wants_it(fake);
}

static void a_daemon_that_is_restarted_is_given_it_again(void **state) {
    (void)state;
    struct fake fake;
    struct feed *feed;
    struct feed_batch batch;
    struct feed_view view = view_of_many();
    fake_start(&fake, comes_back_without_it);
    struct feed_options options = fake_options(&fake);
    options.reconnect_timeout_ms = 0;
    assert_int_equal(feed_open_view(&feed, &options, &view), 0);
    memset(many, 0xff, sizeof many); // a copy was made
    assert_int_equal(feed_next(feed, &batch, 1000), -EAGAIN);
    feed_close(feed);
    fake_stop(&fake);
}

// ---- What is refused -----------------------------------------------------------------------------------------

static void refuses_it(struct fake *fake) {
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_BRING);
    fake_error(fake, ERANGE, "no such sample");
    fake_linger(fake);
}

// While numbers are still under way.
static void refuses_the_first_piece(struct fake *fake) {
    expect_many(fake);
    say_wanted(fake);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_PIECE);
    fake_error(fake, ERANGE, "no such sample");
    nanosleep(&(struct timespec){.tv_nsec = 50 * NS_PER_MS}, NULL);
    fake_linger(fake);
}

static void wants_it_twice(struct fake *fake) {
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_BRING);
    say_wanted(fake);
    say_wanted(fake);
    fake_linger(fake);
}

static void wants_a_split(struct fake *fake) {
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_BRING);
    say_wanted(fake);
    fake_linger(fake);
}

static void does_not_read(struct fake *fake) {
    expect_many(fake);
    say_wanted(fake);
    while (poll(&(struct pollfd){.fd = fake->peer}, 1, 50) == 0)
        ;
}

static void refused(void (*script)(struct fake *), const struct feed_view *view, int code, const char *part) {
    unsigned before = open_descriptors();
    struct fake fake;
    struct feed *feed;
    fake_start(&fake, script);
    struct feed_options options = fake_options(&fake);
    options.connect_timeout_ms = code == -ETIMEDOUT ? 300 : FAKE_WAIT_MS;
    assert_int_equal(feed_open_view(&feed, &options, view), code);
    if (!strstr(feed_strerror(feed), part))
        fail_msg("no \"%s\" in \"%s\"", part, feed_strerror(feed));
    feed_close(feed);
    fake_stop(&fake);
    assert_int_equal(open_descriptors(), before);
}

static void daemons_that_refuse_it(void **state) {
    (void)state;
    const struct feed_view short_view = view_of_few(), long_view = view_of_many();
    const struct feed_view split = {.bytes = sizeof split, .kind = FEED_SPLIT, .end = 1};
    refused(refuses_it, &short_view, -ERANGE, "no such sample");
    refused(refuses_the_first_piece, &long_view, -ERANGE, "no such sample");
    refused(wants_it_twice, &short_view, -EPROTO, "answered a view with message");
    refused(wants_a_split, &split, -EPROTO, "answered a view with message");
    refused(does_not_read, &long_view, -ETIMEDOUT, "in time");
}

// Without a daemon.
static void views_that_cannot_be(void **state) {
    (void)state;
    static const uint8_t data[8];
    static const struct {
        struct feed_view view;
        const char *part;
    } cases[] = {
        {{.kind = FEED_RANGE}, "sizeof(struct feed_view)"},
        {{.bytes = sizeof(struct feed_view)}, "feed_view.kind 0"},
        {{.bytes = sizeof(struct feed_view), .kind = (enum feed_view_kind)5}, "feed_view.kind 5"},
        {{.bytes = sizeof(struct feed_view), .kind = FEED_INDICES, .dtype = FEED_I64}, "found none"},
        {{.bytes = sizeof(struct feed_view), .kind = FEED_INDICES, .data = data, .dtype = FEED_I64},
         "found none"},
        {{.bytes = sizeof(struct feed_view), .kind = FEED_INDICES, .data = data, .count = 1}, "found ?"},
        {{.bytes = sizeof(struct feed_view),
          .kind = FEED_INDICES,
          .data = data,
          .count = 1,
          .dtype = FEED_BOOL},
         "found a mask"},
        {{.bytes = sizeof(struct feed_view),
          .kind = FEED_INDICES,
          .data = data,
          .count = 1,
          .dtype = FEED_F32},
         "found f32, wanted integers"},
        {{.bytes = sizeof(struct feed_view),
          .kind = FEED_WEIGHTS,
          .data = data,
          .count = 1,
          .dtype = FEED_C64},
         "found c64, wanted integers or floats"},
        {{.bytes = sizeof(struct feed_view),
          .kind = FEED_WEIGHTS,
          .data = data,
          .count = UINT64_MAX,
          .dtype = FEED_U8},
         "wanted at most 134217728"},
    };
    const struct feed_options options = {.socket = "/nowhere", .dataset = "numbers", .batch_size = 1};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct feed *feed;
        assert_int_equal(feed_open_view(&feed, &options, &cases[i].view), -EINVAL);
        if (!strstr(feed_strerror(feed), cases[i].part))
            fail_msg("no \"%s\" in \"%s\"", cases[i].part, feed_strerror(feed));
        feed_close(feed);
    }
}

// A program that was built with a newer feed.h.
static void members_that_this_libfeed_does_not_know(void **state) {
    (void)state;
    struct {
        struct feed_view view;
        uint64_t more;
    } newer = {.view = view_of_few()};
    newer.view.bytes = sizeof newer;
    open_with(has_it, &newer.view);
    const struct feed_options options = {.socket = "/nowhere", .dataset = "numbers", .batch_size = 1};
    struct feed *feed;
    newer.more = 1;
    assert_int_equal(feed_open_view(&feed, &options, &newer.view), -EINVAL);
    assert_non_null(strstr(feed_strerror(feed), "does not know"));
    feed_close(feed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_that_the_daemon_has),
        cmocka_unit_test(a_view_that_the_daemon_wants),
        cmocka_unit_test(parts_and_weights),
        cmocka_unit_test(a_daemon_that_is_restarted_is_given_it_again),
        cmocka_unit_test(daemons_that_refuse_it),
        cmocka_unit_test(views_that_cannot_be),
        cmocka_unit_test(members_that_this_libfeed_does_not_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
