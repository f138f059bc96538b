// The slots of a pool that grow, as libfeed maps them on a simulated GPU: where batches are, what is unmapped and when,
// and what it does not take from a daemon.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/error.h"
#include "client/feed.h"
#include "client/lib/batch.h"
#include "client/lib/leases.h"
#include "gpu/gpu_host.h"
#include "shm/ring_make.h"

#define SLOTS 3u
#define USUAL 4000u
#define MOST  200000u
#define BATCH 4u
#define OWN   (16 * RING_PAGE)

static struct {
    struct gpu *gpu;
    struct ring_plan plan;
    int ring_fd, read_fd, words_fd, first_fd;
    struct gpu_memory first; // the daemon's
    struct ring daemon;      // the same ring, to be written to
    struct open_request request;
    struct attachment attachment;
    struct lease leases[SLOTS];
    uint32_t queue[SLOTS];
} at;

static struct error said;

static void assert_done(int code) {
    if (code < 0)
        fail_msg("%s", said.text);
}

static void make_ring(bool ragged) {
    at.plan = (struct ring_plan){
        .slot_count = SLOTS, .batch_size = BATCH, .field_count = 1, .samples = 100, .on_device = true};
    at.plan.fields[0] = (struct ring_field){.name = "ids", .dtype = DTYPE_U8, .dimensions = 1};
    if (ragged)
        at.plan.fields[0].ragged = 1;
    else
        at.plan.fields[0].shape[0] = at.plan.fields[0].sample_bytes = 100;
    at.plan.ragged_usual = ragged ? USUAL : 0;
    at.plan.ragged_most = ragged ? MOST : 0;
    assert_done(ring_plan(&at.plan, &said));
    assert_done(ring_create(&at.plan, &at.ring_fd, &at.read_fd, &said));
    assert_done(ring_allocate_control(&at.plan, at.ring_fd, &said));
    assert_done(ring_map(&at.daemon, at.ring_fd, RING_CONTROL, &said));
    assert_done(ring_map(&at.attachment.ring, at.read_fd, RING_READ, &said));
}

static void open_with(bool ragged) {
    memset(&at, 0, sizeof at);
    assert_done(gpu_open(&at.gpu, "HOST-0", &said));
    make_ring(ragged);
    uint64_t bytes = gpu_round_up(at.gpu, ring_pool_bytes(at.daemon.header));
    assert_done(gpu_create(at.gpu, bytes, &at.first, &at.first_fd, &said));
    at.words_fd = memfd_create("words", MFD_CLOEXEC);
    assert_int_equal(ftruncate(at.words_fd, RING_PAGE), 0);
    at.request.socket = (char *)"nowhere";
    at.attachment.request = &at.request;
    at.attachment.prefetch = SLOTS;
    at.attachment.leases = at.leases;
    at.attachment.queue = at.queue;
    at.attachment.ring_fd = at.read_fd;
    at.attachment.connection.alive_ns = UINT64_MAX / 2; // the ring has not been emptied
    assert_done(mapped_pool_open(&at.attachment.pool, at.gpu, &at.attachment.ring, at.first_fd, bytes,
                                 at.words_fd, &said));
}

static int set_up(void **state) {
    (void)state;
    open_with(true);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    mapped_pool_close(&at.attachment.pool);
    frame_reader_free(&at.attachment.connection.reader);
    ring_unmap(&at.attachment.ring);
    ring_unmap(&at.daemon);
    gpu_free(at.gpu, &at.first);
    gpu_close(at.gpu);
    close_fd(&at.ring_fd);
    close_fd(&at.read_fd);
    close_fd(&at.words_fd);
    close_fd(&at.first_fd);
    return 0;
}

// ---- The daemon --------------------------------------------------------------------------------------------

// Memory of which every byte is `value`.
static int memory_of(uint64_t bytes, int value) {
    struct gpu_memory memory;
    int fd = -1;
    assert_done(gpu_create(at.gpu, bytes, &memory, &fd, &said));
    memset((void *)(uintptr_t)memory.address, value, bytes); // a pointer, for a simulated GPU
    gpu_free(at.gpu, &memory);
    return fd;
}

// Takes over the descriptor.
static int grow(uint32_t slot, uint64_t bytes, int fd) {
    Feedd__SlotMemory message = FEEDD__SLOT_MEMORY__INIT;
    struct frame_reader *reader = &at.attachment.connection.reader;
    message.slot = slot;
    message.bytes = bytes;
    reader->fds[reader->fd_count++] = fd;
    int err = leases_grow_slot(&at.attachment, &message, &said);
    assert_int_equal(reader->fd_count, 0);
    return err;
}

// As granted to this consumer: a batch without samples' bytes but `end`.
static void grant(uint32_t slot, uint64_t fill, uint64_t end) {
    struct ring_slot *record = ring_slot(&at.daemon, slot);
    *record = (struct ring_slot){.fill = fill, .count = BATCH, .chunk_count = 1};
    atomic_store(&ring_places(&at.daemon, slot)[0], at.daemon.header->values_offset);
    atomic_store(&ring_places(&at.daemon, slot)[2], end);
    at.leases[slot] = (struct lease){.fill = fill, .state = LEASE_QUEUED};
    at.queue[0] = slot;
    at.attachment.queue_first = 0;
    at.attachment.queue_count = 1;
}

static void give_back(uint32_t slot) {
    at.leases[slot].state = LEASE_NONE;
    at.attachment.held = 0;
    assert_done(mapped_pool_release(&at.attachment.pool, slot, at.leases[slot].fill, FEED_NO_STREAM, &said));
}

static int take(struct feed_batch *batch) {
    static const struct feed_array fields[1] = {{.name = "ids", .ragged = true, .dimensions = 1}};
    return batch_take(&at.attachment, fields, batch, &said);
}

static void assert_refused(int code, const char *word) {
    assert_int_equal(code, -EPROTO);
    if (!strstr(said.text, word))
        fail_msg("\"%s\" is not in \"%s\"", word, said.text);
}

// ---- Tests -------------------------------------------------------------------------------------------------

static void a_batch_lies_in_the_memory_that_its_slot_has(void **state) {
    (void)state;
    const struct ring_header *header = at.daemon.header;
    struct feed_batch batch;
    uint8_t byte = 0;
    assert_true(OWN > header->slot_allocated_bytes && OWN < header->slot_bytes);
    grant(1, 1, header->values_offset + 100);
    assert_int_equal(take(&batch), 1);
    const uint64_t first = at.attachment.pool.slots.first.address;
    assert_int_equal((uintptr_t)batch.field[0].data,
                     first + header->slot_allocated_bytes + header->values_offset);
    give_back(1);

    assert_done(grow(1, OWN, memory_of(OWN, 7)));
    grant(1, 2, OWN);
    assert_int_equal(take(&batch), 1);
    assert_int_equal(batch.field[0].bytes, OWN - header->values_offset);
    assert_done(
        gpu_copy_out(at.gpu, &byte, (uintptr_t)batch.field[0].data + batch.field[0].bytes - 1, 1, &said));
    assert_int_equal(byte, 7);
    give_back(1);

    // The others have what they had.
    grant(2, 1, header->values_offset + 100);
    assert_int_equal(take(&batch), 1);
    assert_int_equal((uintptr_t)batch.field[0].data,
                     first + 2 * header->slot_allocated_bytes + header->values_offset);
}

static void what_a_slot_had_is_unmapped(void **state) {
    (void)state;
    uint8_t byte;
    assert_done(grow(0, OWN, memory_of(OWN, 1)));
    const uint64_t before = gpu_slot_address(&at.attachment.pool.slots, 0);
    assert_done(gpu_copy_out(at.gpu, &byte, before, 1, &said));
    assert_done(grow(0, 2 * OWN, memory_of(2 * OWN, 2)));
    assert_int_equal(gpu_slot_bytes(&at.attachment.pool.slots, 0), 2 * OWN);
    assert_int_equal(gpu_slots_bytes(&at.attachment.pool.slots), at.first.bytes + 2 * OWN);
    // What is mapped there now, if anything, is the new memory.
    const uint64_t now = gpu_slot_address(&at.attachment.pool.slots, 0);
    if (before < now || before >= now + 2 * OWN)
        assert_int_equal(gpu_copy_out(at.gpu, &byte, before, 1, &said), -EIO);
}

static void values_beyond_the_slots_memory_are_refused(void **state) {
    (void)state;
    struct feed_batch batch;
    grant(0, 1, at.daemon.header->slot_allocated_bytes + 1);
    assert_refused(take(&batch), "values that are not in it");
    grant(0, 1, at.daemon.header->slot_allocated_bytes);
    assert_int_equal(take(&batch), 1);
    give_back(0);
    assert_done(grow(0, OWN, memory_of(OWN, 1)));
    grant(0, 2, OWN + 1);
    assert_refused(take(&batch), "values that are not in it");
}

static void a_slot_that_is_used_gets_no_memory(void **state) {
    (void)state;
    struct feed_batch batch;
    grant(0, 1, at.daemon.header->slot_allocated_bytes);
    assert_refused(grow(0, OWN, memory_of(OWN, 1)), "which this consumer holds"); // queued
    assert_int_equal(take(&batch), 1);
    assert_refused(grow(0, OWN, memory_of(OWN, 1)), "which this consumer holds");
    at.leases[0].state = LEASE_NONE; // but the stream has not got there
    assert_refused(grow(0, OWN, memory_of(OWN, 1)), "stream still reads");
    give_back(0);
    assert_done(grow(0, OWN, memory_of(OWN, 1)));
}

static void memory_that_cannot_be_is_refused(void **state) {
    (void)state;
    assert_refused(grow(SLOTS, OWN, memory_of(OWN, 1)), "does not exist");
    assert_refused(grow(0, at.daemon.header->slot_allocated_bytes, memory_of(OWN, 1)), "cannot have it");
    assert_int_equal(grow(0, 2 * OWN, memory_of(OWN, 1)), -EIO); // less than it says
    assert_int_equal(grow(0, OWN, -1), -EIO);
    assert_done(grow(0, OWN, memory_of(OWN, 1)));
    assert_refused(grow(0, OWN, memory_of(OWN, 1)), "cannot have it"); // no larger
    assert_int_equal(gpu_slots_bytes(&at.attachment.pool.slots), at.first.bytes + OWN);
}

static void without_ragged_fields_nothing_grows(void **state) {
    tear_down(state);
    open_with(false);
    assert_refused(grow(0, OWN, memory_of(OWN, 1)), "cannot have it");
    struct gpu *gpu = at.attachment.pool.gpu;
    at.attachment.pool.gpu = NULL; // in host memory
    assert_refused(grow(0, OWN, memory_of(OWN, 1)), "does not exist");
    at.attachment.pool.gpu = gpu;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_batch_lies_in_the_memory_that_its_slot_has),
        TEST(what_a_slot_had_is_unmapped),
        TEST(values_beyond_the_slots_memory_are_refused),
        TEST(a_slot_that_is_used_gets_no_memory),
        TEST(memory_that_cannot_be_is_refused),
        TEST(without_ragged_fields_nothing_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
