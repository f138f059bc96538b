// Rings of device pools: the control part alone, batches described after those of the feed's ring, the sleep of
// the one who copies them.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "order/partition.h"
#include "shm/ring_loader.h"
#include "shm/ring_make.h"
#include "shm/ring_supervisor.h"
#include "tests/unit/pool_fixture.h"

#define BATCH 100u

static const struct ring_shape shape = {4, BATCH, 25, 1};
static struct ring source, pool;

static int set_up(void **state) {
    (void)state;
    fixture_ring(&source, &shape);
    pool_ring(&pool, &shape);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    ring_unmap(&source);
    ring_unmap(&pool);
    return 0;
}

static struct ring_claim claim_one(void) {
    struct ring_claim claim = {0};
    assert_true(ring_claim(&pool, 1, &claim));
    return claim;
}

// ---- Batches -----------------------------------------------------------------------------------------------

static void a_copy_is_described_as_its_original(void **state) {
    (void)state;
    struct batch_place place = {
        .epoch = 3, .index = 4, .first_position = 500, .count = 73, .consumed = 573, .last_of_epoch = true};
    assert_true(ring_dispatch(&source, 1, &(struct ring_batch){.run = 5, .rank = 7, .sequence = 99}, &place));
    for (uint64_t fill = 1; fill < 4; fill++) {
        assert_true(ring_dispatch_copy(&pool, 2, &source, 1, fill << 40 | 5));
        const struct ring_slot *copy = ring_slot(&pool, 2), *original = ring_slot(&source, 1);
        assert_int_equal(copy->run, 5);
        assert_int_equal(copy->sequence, 99);
        assert_int_equal(copy->rank, 7);
        assert_int_equal(copy->epoch, 3);
        assert_int_equal(copy->index, 4);
        assert_int_equal(copy->first_position, 500);
        assert_int_equal(copy->consumed, 573);
        assert_int_equal(copy->count, 73);
        assert_int_equal(copy->last_of_epoch, original->last_of_epoch);
        assert_int_equal(copy->source, 1);
        assert_int_equal(copy->fill, fill);
        assert_int_equal(atomic_load(&copy->unread), fill << 40 | 5);
        assert_int_equal(ring_slot_poll(&pool, 2), RING_SLOT_FILLING);
        struct ring_claim claim = claim_one(), none;
        assert_int_equal(claim.slot, 2);
        assert_int_equal(claim.chunk_count, 1);
        assert_false(ring_claim(&pool, 1, &none));
        assert_true(ring_slot_busy(&pool, 2));
        (void)!ring_chunk_done(&pool, &claim, 0);
        assert_int_equal(ring_slot_poll(&pool, 2), RING_SLOT_READY);
        ring_slot_free(&pool, 2);
    }
    assert_int_equal(ring_slot(&pool, 1)->fill, 0);
}

// The holes are already closed in the original; a reader of the copy's samples has to know about them.
static void skips_come_along_and_go_again(void **state) {
    (void)state;
    struct batch_place place = fixture_place(0, BATCH, BATCH);
    struct ring_claim claim;
    assert_true(ring_dispatch(&source, 0, &(struct ring_batch){.sequence = 0}, &place));
    for (int chunk = 0; chunk < 4; chunk++) {
        assert_true(ring_claim(&source, 1, &claim));
        ring_skip_sample(&source, &claim, claim.first_sample + 3);
        (void)!ring_chunk_done(&source, &claim, 1);
    }
    assert_int_equal(ring_slot_poll(&source, 0), RING_SLOT_FILLING);
    assert_true(ring_claim(&source, 1, &claim));
    ring_repair(&source, &claim);
    (void)!ring_chunk_done(&source, &claim, 0);
    assert_int_equal(ring_slot_poll(&source, 0), RING_SLOT_READY);
    assert_true(ring_dispatch_copy(&pool, 3, &source, 0, 0));
    assert_int_equal(ring_slot(&pool, 3)->skipped, 4);
    assert_memory_equal((const void *)ring_skips(&pool, 3), (const void *)ring_skips(&source, 0), 16);
    claim = claim_one();
    (void)!ring_chunk_done(&pool, &claim, 0);
    // Without its own repair.
    assert_int_equal(ring_slot_poll(&pool, 3), RING_SLOT_READY);
    ring_slot_free(&pool, 3);
    ring_slot_free(&source, 0);
    assert_true(ring_dispatch(&source, 0, &(struct ring_batch){.sequence = 1}, &place));
    assert_true(ring_dispatch_copy(&pool, 3, &source, 0, 0));
    assert_int_equal(ring_slot(&pool, 3)->skipped, 0);
    assert_int_equal(atomic_load(&ring_skips(&pool, 3)[0]) | atomic_load(&ring_skips(&pool, 3)[1]), 0);
}

static void a_batch_without_samples_is_a_copy_all_the_same(void **state) {
    (void)state;
    struct batch_place place = fixture_place(0, 0, BATCH);
    assert_true(ring_dispatch(&source, 0, &(struct ring_batch){.sequence = 0}, &place));
    assert_true(ring_dispatch_copy(&pool, 0, &source, 0, 0));
    assert_int_equal(ring_slot_poll(&pool, 0), RING_SLOT_FILLING);
    struct ring_claim claim = claim_one();
    assert_int_equal(claim.count, 0);
    (void)!ring_chunk_done(&pool, &claim, 0);
    assert_int_equal(ring_slot_poll(&pool, 0), RING_SLOT_READY);
}

static void what_a_dead_one_had_claimed_is_claimed_again(void **state) {
    (void)state;
    struct batch_place place = fixture_place(0, BATCH, BATCH);
    assert_true(ring_dispatch(&source, 0, &(struct ring_batch){.sequence = 0}, &place));
    for (uint32_t slot = 0; slot < 3; slot++)
        assert_true(ring_dispatch_copy(&pool, slot, &source, 0, 1ull << slot));
    struct ring_claim first = claim_one(), second = claim_one();
    (void)!ring_chunk_done(&pool, &second, 0);
    assert_int_equal(ring_recover(&pool, 1), 1);
    for (int again = 0; again < 2; again++) {
        struct ring_claim claim;
        assert_true(ring_claim(&pool, 2, &claim));
        assert_int_equal(claim.slot, again ? 2 : first.slot);
        assert_int_equal(ring_slot(&pool, claim.slot)->fill, 1);
        assert_int_equal(atomic_load(&ring_slot(&pool, claim.slot)->unread), 1ull << claim.slot);
    }
}

// Nobody reads these samples again, so nobody would mark again which of them are missing.
static void skips_outlive_the_one_who_copies(void **state) {
    (void)state;
    struct batch_place place = fixture_place(0, BATCH, BATCH);
    assert_true(ring_dispatch(&source, 0, &(struct ring_batch){.run = 1}, &place));
    atomic_store(&ring_skips(&source, 0)[0], 1ull << 3);
    source.dispatched[0].skipped = 1;
    assert_true(ring_dispatch_copy(&pool, 1, &source, 0, 0));
    struct ring_claim claim = claim_one();
    assert_int_equal(ring_recover(&pool, 1), 1);
    assert_int_equal(atomic_load(&ring_skips(&pool, 1)[0]), 1ull << 3);
    assert_true(ring_announce_sleep(&pool)); // there is a chunk to be claimed
    claim = claim_one();
    (void)!ring_chunk_done(&pool, &claim, 0);
    assert_int_equal(ring_slot_poll(&pool, 1), RING_SLOT_READY);
    assert_int_equal(ring_slot(&pool, 1)->skipped, 1);
    assert_int_equal(atomic_load(&ring_skips(&pool, 1)[0]), 1ull << 3);
}

// ---- Sleep -------------------------------------------------------------------------------------------------

static void a_sleeper_is_woken_once(void **state) {
    (void)state;
    struct batch_place place = fixture_place(0, BATCH, BATCH);
    assert_false(ring_take_sleeper(&pool));
    assert_false(ring_announce_sleep(&pool));
    assert_true(ring_take_sleeper(&pool));
    assert_false(ring_take_sleeper(&pool));
    assert_true(ring_dispatch(&source, 0, &(struct ring_batch){.sequence = 0}, &place));
    assert_true(ring_dispatch_copy(&pool, 0, &source, 0, 0));
    assert_true(ring_announce_sleep(&pool)); // there is work after all
    claim_one();
    assert_false(ring_announce_sleep(&pool));
}

#define ROUNDS 20000

static _Atomic uint32_t posted;

// Sleeps as the transfer process does, and gives up when nobody has woken it though there was work.
static void *copier(void *overslept) {
    struct ring_claim claim;
    for (uint32_t done = 0; done < ROUNDS;) {
        while (ring_claim(&pool, 1, &claim)) {
            (void)!ring_chunk_done(&pool, &claim, 0);
            done++;
        }
        uint32_t seen = atomic_load(&posted);
        if (done == ROUNDS || ring_announce_sleep(&pool))
            continue;
        for (uint64_t until = monotonic_ns() + UINT64_C(5000000000); atomic_load(&posted) == seen;)
            if (monotonic_ns() > until)
                return overslept;
    }
    return NULL;
}

// Whoever dispatches either sees the sleeper or is seen by it.
static void no_wakeup_is_lost(void **state) {
    (void)state;
    struct batch_place place = fixture_place(0, BATCH, BATCH);
    pthread_t thread;
    bool overslept = true;
    void *result = NULL;
    assert_true(ring_dispatch(&source, 0, &(struct ring_batch){.sequence = 0}, &place));
    assert_int_equal(pthread_create(&thread, NULL, copier, &overslept), 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        assert_true(ring_dispatch_copy(&pool, round % 4, &source, 0, 0));
        if (ring_take_sleeper(&pool))
            atomic_fetch_add(&posted, 1);
        uint64_t until = monotonic_ns() + UINT64_C(8000000000);
        while (ring_slot_poll(&pool, round % 4) != RING_SLOT_READY && monotonic_ns() < until)
            sched_yield();
        if (ring_slot_poll(&pool, round % 4) != RING_SLOT_READY)
            break;
        ring_slot_free(&pool, round % 4);
    }
    pthread_join(thread, &result);
    assert_null(result);
}

// ---- Plan and map ------------------------------------------------------------------------------------------

static struct ring_plan device_plan(void) {
    return (struct ring_plan){.slot_count = 8,
                              .batch_size = 5000,
                              .field_count = 1,
                              .fields = {fixture_field("x", 100, 0)},
                              .samples = 100000,
                              .world_size = 1,
                              .on_device = true};
}

static void a_planned_ring_ends_with_its_control_part(void **state) {
    (void)state;
    struct error error = {0};
    struct ring_plan plan = device_plan();
    struct ring ring;
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    assert_int_equal(ring_plan(&plan, &error), 0);
    assert_int_equal(plan.chunks_per_slot, 1);
    assert_int_equal(plan.chunk_samples, 5000);
    assert_int_equal(plan.total_bytes, plan.data_offset);
    assert_true(plan.slot_bytes >= 5000ull * 800);
    assert_int_equal(ring_create(&plan, &fd, &read_fd, &error), 0);
    assert_int_equal(ring_allocate_control(&plan, fd, &error), 0);
    for (int access = RING_CONTROL; access <= RING_READ; access++) {
        assert_int_equal(
            ring_map(&ring, access == RING_READ ? read_fd : fd, (enum ring_access)access, &error), 0);
        assert_null(ring.data);
        assert_int_equal(ring.header->on_device, 1);
        assert_int_equal(ring_pool_word(ring.header, 0), 8 * plan.slot_bytes);
        assert_int_equal(ring_pool_bytes(ring.header), 8 * plan.slot_bytes + 64);
        ring_unmap(&ring);
    }
}

// By a descriptor that a transfer process got while it served, nor by one that it opens again.
static void nobody_can_resize_the_ring_of_a_pool(void **state) {
    (void)state;
    struct error error = {0};
    struct ring_plan plan = device_plan();
    struct stat status;
    char path[64];
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    assert_int_equal(ring_plan(&plan, &error), 0);
    assert_int_equal(ring_create(&plan, &fd, &read_fd, &error), 0);
    assert_int_equal(ring_allocate_control(&plan, fd, &error), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", read_fd);
    AUTO_CLOSE int again = open(path, O_RDWR | O_CLOEXEC);
    assert_true(again >= 0); // this is the daemon's own user
    assert_int_equal(ftruncate(again, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, (off_t)plan.total_bytes + 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(fstat(read_fd, &status), 0);
    assert_int_equal(status.st_size, plan.total_bytes);
    assert_int_equal(status.st_mode & 0777, 0600); // no other user can open it for writing
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
}

static void refuse(void (*spoil)(struct ring_header *)) {
    struct error error = {0};
    struct ring_header header;
    struct ring ring;
    AUTO_CLOSE int fd = memfd_create("ring of a pool", MFD_CLOEXEC);
    assert_int_equal(pool_write_header(fd, &shape), 0);
    assert_int_equal(pread(fd, &header, sizeof header, 0), sizeof header);
    spoil(&header);
    assert_int_equal(pwrite(fd, &header, sizeof header, 0), sizeof header);
    assert_int_equal(ftruncate(fd, (off_t)header.total_bytes), 0);
    for (int access = RING_CONTROL; access <= RING_READ; access++) {
        assert_int_equal(ring_map(&ring, fd, (enum ring_access)access, &error), -EPROTO);
        assert_null(ring.header);
    }
}

static void another_number(struct ring_header *header) {
    header->on_device = 2;
}
static void slots_of_its_own(struct ring_header *header) {
    header->on_device = 0;
}
static void data_before_the_end(struct ring_header *header) {
    header->data_offset -= RING_PAGE;
}
static void data_behind_the_end(struct ring_header *header) {
    header->data_offset += RING_PAGE;
}
static void more_behind_the_control_part(struct ring_header *header) {
    header->total_bytes += RING_PAGE;
}
static void slots_beyond_all_memory(struct ring_header *header) {
    header->slot_bytes = UINT64_MAX - RING_PAGE + 1;
}
static void slots_whose_product_wraps(struct ring_header *header) {
    header->slot_bytes = UINT64_C(1) << 62;
}
static void slots_of_no_whole_page(struct ring_header *header) {
    header->slot_bytes += 8;
}
static void a_field_behind_its_slot(struct ring_header *header) {
    header->fields[1].slot_offset = header->slot_bytes;
}

static void headers_that_lie_are_refused(void **state) {
    (void)state;
    void (*const lies[])(struct ring_header *) = {another_number,
                                                  slots_of_its_own,
                                                  data_before_the_end,
                                                  data_behind_the_end,
                                                  more_behind_the_control_part,
                                                  slots_beyond_all_memory,
                                                  slots_whose_product_wraps,
                                                  slots_of_no_whole_page,
                                                  a_field_behind_its_slot};
    for (size_t i = 0; i < COUNT_OF(lies); i++)
        refuse(lies[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_copy_is_described_as_its_original, set_up, tear_down),
        cmocka_unit_test_setup_teardown(skips_come_along_and_go_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_batch_without_samples_is_a_copy_all_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_dead_one_had_claimed_is_claimed_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(skips_outlive_the_one_who_copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_sleeper_is_woken_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_wakeup_is_lost, set_up, tear_down),
        cmocka_unit_test(a_planned_ring_ends_with_its_control_part),
        cmocka_unit_test(nobody_can_resize_the_ring_of_a_pool),
        cmocka_unit_test(headers_that_lie_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
