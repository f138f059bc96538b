// Batches with a ragged field, as libfeed hands them out: values, offsets, and what it does not take from a ring.
#include <unistd.h>

#define FAKE_RAGGED 4000
#include "base/sizes.h"
#include "base/time.h"
#include "client/lib/handle.h"
#include "client/lib/leases.h"
#include "shm/ring_places.h"
#include "tests/unit/fake_feedd.h"

#define IDS 2 // the field

// In the script's thread, before it is granted: `values` in the slot from `begin` on.
static void fill(struct fake *fake, uint32_t slot, uint64_t sequence, uint32_t count, uint64_t begin,
                 uint64_t values) {
    struct ring_slot *record = ring_slot(&fake->ring, slot);
    uint32_t chunks = count ? 1 : 0;
    fake_fill(fake, slot, sequence);
    __atomic_store_n(&record->count, count, __ATOMIC_RELAXED);
    __atomic_store_n(&record->chunk_count, chunks, __ATOMIC_RELAXED);
    atomic_store(&ring_places(&fake->ring, slot)[0], begin);
    atomic_store(&ring_places(&fake->ring, slot)[chunks + 1], begin + sizeof(int32_t) * values);
}

static uint64_t first_value(const struct fake *fake) {
    return fake->ring.header->values_offset;
}

static void one_and_one_without_samples(struct fake *fake) {
    uint32_t slots[] = {3, 4};
    fake_open(fake);
    fill(fake, 3, 5, FAKE_BATCH, first_value(fake), 500);
    int64_t *offsets =
        (int64_t *)(void *)(ring_slot_data(&fake->ring, 3) + fake->ring.header->fields[IDS].slot_offset);
    for (int64_t i = 0; i <= FAKE_BATCH; i++)
        offsets[i] = 500 * i / FAKE_BATCH;
    fill(fake, 4, 6, 0, first_value(fake), 0);
    fake_send_grant(fake, 5, slots, 2);
    fake_linger(fake);
}

static void values_and_offsets(void **state) {
    (void)state;
    struct fake fake;
    struct feed_batch batch;
    int64_t copy[FAKE_BATCH + 1];
    fake_start(&fake, one_and_one_without_samples);
    struct feed *feed = fake_client(&fake);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    const struct feed_array *ids = &batch.field[IDS];
    assert_true(ids->ragged);
    assert_int_equal(ids->dimensions, 1);
    assert_int_equal(ids->shape[0], 500);
    assert_int_equal(ids->bytes, 2000);
    assert_int_equal((uintptr_t)ids->data % RING_VALUES_ALIGN, 0);
    assert_int_equal(ids->offsets[0], 0);
    assert_int_equal(ids->offsets[FAKE_BATCH], 500);
    assert_int_equal(feed_batch_fetch_offsets(feed, &batch, IDS, copy), 0);
    assert_memory_equal(copy, ids->offsets, sizeof copy);
    assert_int_equal(feed_batch_fetch_offsets(feed, &batch, 0, copy), -EINVAL);
    assert_false(batch.field[0].ragged);
    assert_null(batch.field[0].offsets);

    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    assert_int_equal(batch.count, 0);
    assert_int_equal(batch.field[IDS].shape[0], 0);
    assert_int_equal(batch.field[IDS].offsets[0], 0); // whatever was in the slot before
    copy[0] = 7;
    assert_int_equal(feed_batch_fetch_offsets(feed, &batch, IDS, copy), 0);
    assert_int_equal(copy[0], 0);
    feed_close(feed);
    fake_stop(&fake);
}

// ---- What is not in the slot -------------------------------------------------------------------------------

struct lie {
    int64_t begin, end; // from values_offset
    uint32_t chunks;
};

static const struct lie *told;

static void lie_about_values(struct fake *fake) {
    uint32_t slots[] = {0};
    fake_open(fake);
    fill(fake, 0, 5, FAKE_BATCH, first_value(fake) + (uint64_t)told->begin, 0);
    atomic_store(&ring_places(&fake->ring, 0)[2], first_value(fake) + (uint64_t)told->end);
    __atomic_store_n(&ring_slot(&fake->ring, 0)->chunk_count, told->chunks, __ATOMIC_RELAXED);
    fake_send_grant(fake, 5, slots, 1);
    fake_linger(fake);
}

static void values_that_are_not_in_the_slot(void **state) {
    (void)state;
    static const struct lie lies[] = {
        {-256, 0, 1},      {-INT64_MAX, 0, 1},       {0, -4, 1},  {256, 252, 1}, {0, 1 << 20, 1},
        {0, INT64_MAX, 1}, {INT64_MAX - 4000, 0, 1}, {4, 400, 1}, // where no array begins
        {0, 400, 2},       {0, 400, UINT32_MAX},
    };
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        struct fake fake;
        struct feed_batch batch;
        told = &lies[i];
        fake_start(&fake, lie_about_values);
        struct feed *feed = fake_client(&fake);
        int got = feed_next(feed, &batch, FAKE_WAIT_MS);
        if (got != -EPROTO || !strstr(feed_strerror(feed), "values that are not in it"))
            fail_msg("lie %zu: %d, %s", i, got, feed_strerror(feed));
        feed_close(feed);
        fake_stop(&fake);
    }
}

// ---- Memory that may be gone -------------------------------------------------------------------------------

static void grant_two(struct fake *fake) {
    uint32_t slots[] = {0, 1};
    fake_open(fake);
    fill(fake, 0, 5, FAKE_BATCH, first_value(fake), 500);
    fill(fake, 1, 6, FAKE_BATCH, first_value(fake), 500);
    fake_send_grant(fake, 5, slots, 2);
    fake_await_sleep(fake);
}

// As in test_client_emptied.c: the file has shrunk, so a look at the mapping is a SIGBUS.
static void a_queued_batch_of_a_ring_that_was_emptied(void **state) {
    (void)state;
    struct fake fake;
    struct feed_batch batch;
    fake_start(&fake, grant_two);
    struct feed *feed = fake_client(&fake);
    assert_int_equal(feed_next(feed, &batch, FAKE_WAIT_MS), 1);
    leases_send(feed->now, true);
    pthread_join(fake.thread, NULL);
    fake.script = NULL;
    feed->now->connection.alive_ns = monotonic_ns() - 5 * NS_PER_S;
    uint64_t places[1] = {7};
    leases_places(feed->now, 1, 2, places);
    assert_int_equal(places[0], fake.ring.header->values_offset + 2000);
    assert_int_equal(ftruncate(fake.ring_fd, 0), 0);
    leases_places(feed->now, 1, 2, places);
    assert_int_equal(places[0], 0);
    feed->request.options.reconnect_timeout_ms = -1;
    assert_in_range(-feed_next(feed, &batch, FAKE_WAIT_MS), 1, 4095); // an error, and no signal
    feed_close(feed);
    fake_stop(&fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_offsets),
        cmocka_unit_test(values_that_are_not_in_the_slot),
        cmocka_unit_test(a_queued_batch_of_a_ring_that_was_emptied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
