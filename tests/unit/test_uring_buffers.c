// The ring's memory is registered a piece at a time: which pieces, when, and what is read meanwhile.
#include "daemon/loader/read/uring_buffers.h"
#include "daemon/loader/read/uring_queues.h"
#include "tests/unit/reader_fixture.h"

#define MS UINT64_C(1000000)

// Slots of 1 MiB: each is a piece.
static const struct fixture_shape shape = {ONE_FIELD(4096), .files = 1, .file_samples = {300}, .batch = 256,
                                           .slots = 3};

static struct setting setting;
static struct uring_queues queues;

// `ragged`: what each slot has in any case; 0: no field is ragged.
static struct reader *begin_ragged(const struct fixture_shape *wanted, uint64_t ragged) {
    set_up(&setting, wanted);
    struct ring_header *header = (struct ring_header *)setting.fixture.ring.header;
    header->slot_allocated_bytes = ragged;
    header->ragged_count = ragged != 0;
    queues = (struct uring_queues){0};
    uring_queues_open(&queues, &setting.options, true);
    if (queues.err == -EPERM || queues.err == -ENOSYS)
        skip();
    assert_int_equal(queues.err, 0);
    header->ragged_count = 0; // the plan is of samples of one size
    setting.options.queues = &queues;
    return open_reader(URING, &setting.options);
}

static struct reader *begin(const struct fixture_shape *wanted) {
    return begin_ragged(wanted, 0);
}

static void end(struct reader *reader) {
    reader->close(reader);
    uring_queues_close(&queues);
    tear_down(&setting);
}

static int found(uint32_t slot, uint64_t offset, uint64_t bytes) {
    return uring_buffers_find(&queues.buffers, ring_slot_data(&setting.fixture.ring, slot) + offset, bytes);
}

static void nothing_before_the_first_batches(void **state) {
    (void)state;
    struct reader *reader = begin(&shape);
    use_slots(&setting.fixture, 0, 3);
    assert_int_equal(reader->kind, READER_URING);
    assert_false(reader->settle(reader, 1000 * MS, true)); // from here on it counts
    assert_false(reader->settle(reader, 1004 * MS, true));
    assert_false(reader->settle(reader, 1004 * MS, false));
    assert_int_equal(found(0, 0, 4096), -1);
    assert_true(reader->settle(reader, 1005 * MS, true));
    assert_int_equal(found(0, 0, 4096), 0);
    assert_int_equal(found(0, MIB - 4096, 4096), 0);
    assert_int_equal(found(0, MIB - 4096, 4097), -1); // no read into two pieces at once
    assert_int_equal(found(1, 0, 4096), -1);
    assert_int_equal(reader->kind, READER_URING);
    end(reader);
}

static void an_idle_loader_does_it_at_once_and_a_busy_one_now_and_then(void **state) {
    (void)state;
    struct reader *reader = begin(&shape);
    use_slots(&setting.fixture, 0, 3);
    assert_false(reader->settle(reader, 1000 * MS, false));
    assert_true(reader->settle(reader, 1005 * MS, false));
    assert_false(reader->settle(reader, 1014 * MS, false));
    assert_true(reader->settle(reader, 1014 * MS, true));
    assert_int_equal(reader->kind, READER_URING);
    assert_false(reader->settle(reader, 1015 * MS, false));
    assert_true(reader->settle(reader, 1024 * MS, false));
    assert_int_equal(reader->kind, READER_URING_FIXED);
    assert_false(reader->settle(reader, 9999 * MS, true));
    end(reader);
}

// One may not have its memory yet, and io_uring would allocate it.
static void slots_that_no_batch_was_in_are_left_alone(void **state) {
    (void)state;
    struct reader *reader = begin(&shape);
    settle_all(reader);
    assert_int_equal(reader->kind, READER_URING);
    use_slots(&setting.fixture, 1, 2);
    settle_all(reader);
    assert_int_equal(reader->kind, READER_URING_FIXED); // all that it reads into
    assert_int_equal(found(0, 0, 1), -1);
    assert_int_equal(found(1, 0, 1), 1);
    assert_int_equal(found(2, 0, 1), -1);
    end(reader);
}

static void small_slots_share_a_piece(void **state) {
    (void)state;
    const struct fixture_shape small = {ONE_FIELD(4096), .files = 1, .file_samples = {300}, .batch = 100,
                                        .slots = 5};
    struct reader *reader = begin(&small);
    use_slots(&setting.fixture, 0, 1);
    settle_all(reader);
    assert_int_equal(found(0, 0, 1), -1);
    use_slots(&setting.fixture, 1, 5);
    settle_all(reader);
    assert_int_equal(queues.buffers.registered, 3); // two slots each, and the last one
    assert_int_equal(found(1, 0, 4096), 0);
    assert_int_equal(found(4, 0, 4096), 2);
    assert_int_equal(found(1, 99 * 4096, 4097), -1);
    end(reader);
}

static void read_into(struct reader *reader, uint32_t slot) {
    struct ring_claim claim = {.slot = slot, .count = 256};
    bool skipped[256];
    int err;
    memset(setting.fixture.ring.data, FIXTURE_UNUSED, setting.fixture.ring_bytes);
    assert_int_equal(chunk_plan_fill(&setting.plan, &claim, 0), 0);
    assert_int_equal(read_plan(reader, &setting.plan, &err, skipped), 0);
    fixture_check(&setting.fixture, &setting.plan, NULL);
}

static void reads_go_to_registered_pieces_and_to_others(void **state) {
    (void)state;
    struct reader *reader = begin(&shape);
    for (uint32_t used = 0; used <= 3; used++) {
        use_slots(&setting.fixture, 0, used);
        settle_all(reader);
        assert_int_equal(queues.buffers.registered, used);
        for (uint32_t slot = 0; slot < 3; slot++)
            read_into(reader, slot);
    }
    end(reader);
}

// io_uring would allocate the rest, which may never be needed.
static void of_ragged_fields_what_slots_have_in_any_case(void **state) {
    (void)state;
    struct reader *reader = begin_ragged(&shape, 64 * 4096);
    use_slots(&setting.fixture, 0, 3);
    settle_all(reader);
    assert_int_equal(queues.buffers.registered, 3);
    assert_int_equal(reader->kind, READER_URING_FIXED);
    for (uint32_t slot = 0; slot < 3; slot++) {
        assert_int_equal(found(slot, 63 * 4096, 4096), slot);
        assert_int_equal(found(slot, 63 * 4096, 4097), -1);
        assert_int_equal(found(slot, 64 * 4096, 1), -1);
        read_into(reader, slot); // into both
    }
    end(reader);
}

static void small_pieces_are_registered_together(void **state) {
    (void)state;
    struct reader *reader = begin_ragged(&shape, 100 * 4096); // two of them make less than a MiB
    use_slots(&setting.fixture, 0, 3);
    assert_false(reader->settle(reader, 1000 * MS, true));
    assert_true(reader->settle(reader, 1005 * MS, true));
    assert_int_equal(queues.buffers.registered, 2);
    assert_true(reader->settle(reader, 1005 * MS, true));
    assert_int_equal(queues.buffers.registered, 3);
    end(reader);
}

// A lack of memory takes all pieces back, so nothing that the kernel has yet to see may name one.
static void nothing_while_a_read_waits_to_be_submitted(void **state) {
    (void)state;
    struct reader *reader = begin(&shape);
    use_slots(&setting.fixture, 0, 3);
    assert_false(reader->settle(reader, 1000 * MS, true));
    struct io_uring_sqe *entry = io_uring_get_sqe(&queues.uring);
    assert_non_null(entry);
    io_uring_prep_cancel64(entry, 0, IORING_ASYNC_CANCEL_ANY);
    io_uring_sqe_set_data64(entry, 0);
    assert_false(reader->settle(reader, 1005 * MS, true));
    assert_int_equal(io_uring_submit(&queues.uring), 1);
    assert_true(reader->settle(reader, 1005 * MS, true));
    end(reader);
}

// The next reader of the same queues finds what is registered.
static void it_outlives_the_reader(void **state) {
    (void)state;
    struct reader *reader = begin(&shape);
    use_slots(&setting.fixture, 0, 3);
    settle_all(reader);
    reader->close(reader);
    reader = open_reader(URING, &setting.options);
    assert_int_equal(reader->kind, READER_URING_FIXED);
    read_into(reader, 2);
    end(reader);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_before_the_first_batches),
        cmocka_unit_test(an_idle_loader_does_it_at_once_and_a_busy_one_now_and_then),
        cmocka_unit_test(slots_that_no_batch_was_in_are_left_alone),
        cmocka_unit_test(small_slots_share_a_piece),
        cmocka_unit_test(reads_go_to_registered_pieces_and_to_others),
        cmocka_unit_test(of_ragged_fields_what_slots_have_in_any_case),
        cmocka_unit_test(small_pieces_are_registered_together),
        cmocka_unit_test(nothing_while_a_read_waits_to_be_submitted),
        cmocka_unit_test(it_outlives_the_reader),
    };
    return cmocka_run_group_tests_name("uring_buffers", tests, NULL, NULL);
}
