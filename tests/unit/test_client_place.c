// Where a consumer stands: tokens, and which sample of the dataset is which in a batch.
#include "base/error.h"
#include "order/order.h"
#include "order/token.h"
#include "shm/ring_loader.h"
#include "tests/unit/fake_feedd.h"

static void expect_place(const char *text, uint64_t epoch, uint64_t consumed) {
    struct resume_token token;
    struct error error = {0};
    assert_int_equal(resume_token_parse(text, &token, &error), 0);
    assert_int_equal(token.version, ORDER_FEISTEL_1);
    assert_int_equal(token.fingerprint, 0xfeed);
    assert_int_equal(token.seed, 7);
    assert_int_equal(token.epoch, epoch);
    assert_int_equal(token.consumed, consumed);
}

static void expect_token(const struct feed *feed, uint64_t epoch, uint64_t consumed) {
    char text[FEED_TOKEN_BYTES];
    assert_int_equal(feed_token(feed, text), 0);
    expect_place(text, epoch, consumed);
}

static void two_batches_one_the_last(struct fake *fake) {
    fake_open(fake);
    fake_fill(fake, 0, 5);
    fake_fill(fake, 1, 6);
    ring_slot(&fake->ring, 1)->last_of_epoch = 1;
    fake_send_grant(fake, 5, (uint32_t[]){0, 1}, 2);
    fake_linger(fake);
}

static void the_token_follows_what_was_handed_out(void **state) {
    (void)state;
    struct fake fake;
    fake_start(&fake, two_batches_one_the_last);
    struct feed *feed = fake_client(&fake);
    struct feed_batch batch;
    expect_token(feed, 3, 40);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    expect_token(feed, 3, 48);
    assert_int_equal(feed_batch_release(feed, &batch, NULL), 0);
    expect_token(feed, 3, 48);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    expect_token(feed, 4, 0);
    feed_close(feed);
    fake_stop(&fake);
}

static void tokens_of_other_places(void **state) {
    (void)state;
    struct fake fake;
    char text[FEED_TOKEN_BYTES], here[FEED_TOKEN_BYTES];
    fake_start(&fake, two_batches_one_the_last);
    struct feed *feed = fake_client(&fake);
    assert_int_equal(feed_token_at(feed, 3, 40, text), 0);
    assert_int_equal(feed_token(feed, here), 0);
    assert_string_equal(text, here);
    assert_int_equal(feed_token_at(feed, 0, 0, text), 0);
    expect_place(text, 0, 0);
    assert_int_equal(feed_token_at(feed, UINT64_MAX, FAKE_SAMPLES - 1, text), 0);
    expect_place(text, UINT64_MAX, FAKE_SAMPLES - 1);
    text[0] = 'x';
    assert_int_equal(feed_token_at(feed, 3, FAKE_SAMPLES, text), -ERANGE);
    assert_int_equal(feed_token_at(feed, 3, UINT64_MAX, text), -ERANGE);
    assert_int_equal(text[0], 'x');
    expect_token(feed, 3, 40); // the consumer's position has not changed
    feed_close(feed);
    fake_stop(&fake);

    feed = NULL; // one that never attached
    assert_true(feed_open(&feed, &(struct feed_options){
                                     .dataset = "a", .batch_size = 1, .socket = "/nonexistent/socket"}) < 0);
    assert_int_equal(feed_token_at(feed, 0, 0, text), -ENOTCONN);
    assert_int_equal(feed_token(feed, text), -ENOTCONN);
    feed_close(feed);
}

static void one_batch_of_another_epoch(struct fake *fake) {
    fake_open(fake);
    fake_fill(fake, 0, 5);
    fake_fill(fake, 1, 6);
    ring_slot(&fake->ring, 1)->epoch = 4;
    ring_slot(&fake->ring, 1)->first_position = 0;
    fake_fill(fake, 2, 7);
    ring_slot(&fake->ring, 2)->first_position = FAKE_SAMPLES - 2; // a ring that lies
    fake_send_grant(fake, 5, (uint32_t[]){0, 1, 2}, 3);
    fake_linger(fake);
}

static void samples_are_what_the_order_says(void **state) {
    (void)state;
    struct fake fake;
    fake_start(&fake, one_batch_of_another_epoch);
    struct feed *feed = fake_client(&fake);
    struct feed_batch batch[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(feed_next(feed, &batch[i], FAKE_WAIT_MS), 1);
    struct order order;
    for (int i = 0; i < 2; i++) {
        order_init(&order, ORDER_FEISTEL_1, FAKE_SAMPLES, 7, 3 + (uint64_t)i);
        for (uint64_t k = 0; k < FAKE_BATCH; k++)
            assert_int_equal(feed_batch_sample(feed, &batch[i], k),
                             order_sample(&order, batch[i].first_position + k));
    }
    assert_int_equal(feed_batch_sample(feed, &batch[0], FAKE_BATCH), -ERANGE);
    assert_true(feed_batch_sample(feed, &batch[2], 1) >= 0);
    assert_int_equal(feed_batch_sample(feed, &batch[2], 2), -ERANGE);
    // Without holes the answer needs nothing that is in the slot.
    int64_t before = feed_batch_sample(feed, &batch[0], 3);
    assert_int_equal(feed_batch_release(feed, &batch[0], NULL), 0);
    assert_int_equal(feed_batch_sample(feed, &batch[0], 3), before);
    feed_close(feed);
    fake_stop(&fake);
}

// ---- Skipped samples -------------------------------------------------------------------------------

#define PATTERNS (1u << FAKE_BATCH)

// Marks the samples of `pattern` as unreadable in slot 0 and repairs it, as loaders do.
static void mark_skipped(struct fake *fake, uint32_t pattern) {
    struct ring_slot *record = ring_slot(&fake->ring, 0);
    uint8_t *data = ring_slot_data(&fake->ring, 0);
    for (uint32_t i = 0; i < FAKE_BATCH; i++)
        memset(data + (size_t)i * 20, (int)i, 20); // every sample holds the number of its place
    atomic_store(ring_skips(&fake->ring, 0), pattern);
    record->skipped = (uint32_t)__builtin_popcount(pattern);
    ring_repair(&fake->ring, &(struct ring_claim){.slot = 0, .chunk = RING_REPAIR_CHUNK});
}

// Every pattern of unreadable samples, a batch each, in slot 0.
static void every_pattern(struct fake *fake) {
    fake->prefetch = 1;
    fake_open(fake);
    for (uint32_t pattern = 0; pattern < PATTERNS; pattern++) {
        fake_fill(fake, 0, 5 + pattern);
        ring_slot(&fake->ring, 0)->first_position = 16;
        mark_skipped(fake, pattern);
        fake_send_grant(fake, 5 + pattern, (uint32_t[]){0}, 1);
        const Feedd__ClientMessage *message;
        do
            message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_RELEASE);
        while (message && message->release->n_slots == 0);
        if (!message)
            return;
    }
    fake_end(fake);
    fake_linger(fake);
}

static void skipped_samples_are_accounted_for(void **state) {
    (void)state;
    struct fake fake;
    fake_start(&fake, every_pattern);
    struct feed *feed = fake_client(&fake);
    struct feed_batch batch;
    struct order order;
    order_init(&order, ORDER_FEISTEL_1, FAKE_SAMPLES, 7, 3);
    for (uint32_t pattern = 0; pattern < PATTERNS; pattern++) {
        assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
        assert_int_equal(batch.skipped, __builtin_popcount(pattern));
        assert_int_equal(batch.count, FAKE_BATCH - batch.skipped);
        assert_int_equal(batch.field[0].shape[0], batch.count);
        for (uint64_t i = 0; i < batch.count; i++) {
            uint8_t place = ((const uint8_t *)batch.field[0].data)[i * 20];
            assert_false(pattern >> place & 1);
            assert_int_equal(feed_batch_sample(feed, &batch, i), order_sample(&order, 16u + place));
        }
        assert_int_equal(feed_batch_sample(feed, &batch, batch.count), -ERANGE);
        assert_int_equal(feed_batch_release(feed, &batch, NULL), 0);
        if (batch.skipped && batch.count)
            assert_int_equal(feed_batch_sample(feed, &batch, 0), -EINVAL);
    }
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 0);
    feed_close(feed);
    fake_stop(&fake);
}

static void constants_are_told(void **state) {
    (void)state;
    assert_string_equal(feed_dtype_name(FEED_BF16), "bf16");
    assert_int_equal(feed_dtype_bytes(FEED_C128), 16);
    assert_int_equal(feed_dtype_bytes((enum feed_dtype)99), 0);
    assert_true(*feed_version() >= '0');
    assert_string_equal(feed_strerror(NULL), "out of memory");
    feed_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_token_follows_what_was_handed_out),
        cmocka_unit_test(tokens_of_other_places),
        cmocka_unit_test(samples_are_what_the_order_says),
        cmocka_unit_test(skipped_samples_are_accounted_for),
        cmocka_unit_test(constants_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
