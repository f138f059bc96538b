// The ring as an object: its plan, who may map it how, and that no lie in its header is taken. test_ring_making.c
// has its making.
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/sizes.h"
#include "order/order.h"
#include "order/partition.h"
#include "shm/ring_make.h"
#include "shm/ring_supervisor.h"
#include "tests/unit/ring_fixture.h"
#include "tests/unit/ring_lies.h"

static struct ring_plan small_plan(void) {
    struct ring_plan plan = {.slot_count = 4,
                             .batch_size = 10,
                             .field_count = 2,
                             .samples = 1000,
                             .seed = 7,
                             .fingerprint = 99,
                             .world_size = 2,
                             .order_version = ORDER_FEISTEL_1};
    plan.fields[0] = (struct ring_field){"image", DTYPE_F32, 3, {3, 64, 64}, 49152, 0};
    plan.fields[1] = (struct ring_field){"label", DTYPE_I64, 0, {0}, 8, 0};
    return plan;
}

// ---- Plan -------------------------------------------------------------------------------------------------

static void test_a_plan(void **state) {
    (void)state;
    struct ring_plan plan = small_plan();
    struct error error = {0};
    assert_int_equal(ring_plan(&plan, &error), 0);
    assert_int_equal(plan.fields[0].slot_offset, 0);
    assert_int_equal(plan.fields[1].slot_offset, 491520);
    assert_int_equal(plan.slot_bytes, 495616);
    assert_int_equal(plan.data_offset % RING_PAGE, 0);
    assert_int_equal(plan.total_bytes, plan.data_offset + 4 * 495616);
    // Four chunks of 128 KiB hold 480 KiB: 3 + 3 + 3 + 1 samples.
    assert_int_equal(plan.chunks_per_slot, 4);
    assert_int_equal(plan.chunk_samples, 3);
}

static void test_chunks_are_bounded(void **state) {
    (void)state;
    static const uint32_t batches[] = {1, 2, 63, 64, 65, 1000, 4096, 4097, 1u << 20, CHUNK_MAX_SAMPLES};
    static const uint64_t sizes[] = {1, 100, 4096, 131072, 1u << 20};
    for (size_t i = 0; i < COUNT_OF(batches); i++)
        for (size_t k = 0; k < COUNT_OF(sizes); k++) {
            struct ring_plan plan = {.slot_count = 1, .batch_size = batches[i], .field_count = 1};
            plan.fields[0] = (struct ring_field){"x", DTYPE_U8, 1, {sizes[k]}, sizes[k], 0};
            assert_int_equal(ring_plan(&plan, NULL), 0);
            assert_in_range(plan.chunks_per_slot, 1, RING_MAX_CHUNKS);
            assert_in_range(plan.chunk_samples, 1, plan.batch_size);
            assert_int_equal(divide_up(plan.batch_size, plan.chunk_samples), plan.chunks_per_slot);
        }
}

static void assert_no_plan(struct ring_plan plan, const char *word) {
    struct error error = {0};
    assert_int_equal(ring_plan(&plan, &error), -EOVERFLOW);
    if (!strstr(error.text, word))
        fail_msg("\"%s\" is not in \"%s\"", word, error.text);
}

static void test_plans_beyond_the_limits(void **state) {
    (void)state;
    struct ring_plan plan = small_plan();
    plan.slot_count = 0;
    assert_no_plan(plan, "1 to 4096 slots");
    plan.slot_count = RING_MAX_SLOTS + 1;
    assert_no_plan(plan, "4097");
    plan = small_plan();
    plan.batch_size = 0;
    assert_no_plan(plan, "batch");
    plan.batch_size = CHUNK_MAX_SAMPLES + 1;
    assert_no_plan(plan, "batch");
    plan = small_plan();
    plan.field_count = 0;
    assert_no_plan(plan, "fields");
    plan.field_count = RING_MAX_FIELDS + 1;
    assert_no_plan(plan, "fields");
    plan = small_plan();
    plan.fields[0].sample_bytes = UINT64_MAX / 10 + 1; // times 10 wraps to a small number
    assert_no_plan(plan, "too large");
    plan.fields[0].sample_bytes = 1ull << 45;
    assert_no_plan(plan, "too large");
    plan = small_plan();
    plan.batch_size = 1;
    plan.slot_count = RING_MAX_SLOTS;
    plan.fields[0].sample_bytes = 1ull << 40;
    assert_no_plan(plan, "4096 slots");
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++)
        plan.fields[i].sample_bytes = 1ull << 46;
    plan.field_count = RING_MAX_FIELDS;
    plan.slot_count = 1;
    assert_no_plan(plan, "too large");
}

// ---- Making and mapping -----------------------------------------------------------------------------------

struct object {
    int fd, read_fd;
    struct ring_plan plan;
};

static int make_object(void **state) {
    static struct object object;
    struct error error = {0};
    object.plan = small_plan();
    assert_int_equal(ring_plan(&object.plan, &error), 0);
    if (ring_create(&object.plan, &object.fd, &object.read_fd, &error) < 0 ||
        ring_allocate_control(&object.plan, object.fd, &error) < 0)
        fail_msg("%s", error.text);
    *state = &object;
    return 0;
}

static int end_object(void **state) {
    struct object *object = *state;
    close_fd(&object->fd);
    close_fd(&object->read_fd);
    return 0;
}

static void test_what_was_planned_is_mapped(void **state) {
    struct object *object = *state;
    struct ring fill, control, reader;
    assert_int_equal(ring_map(&fill, object->fd, RING_FILL, NULL), 0);
    assert_int_equal(ring_map(&control, object->fd, RING_CONTROL, NULL), 0);
    assert_int_equal(ring_map(&reader, object->read_fd, RING_READ, NULL), 0);
    assert_int_equal(fill.header->slot_bytes, object->plan.slot_bytes);
    assert_int_equal(fill.header->chunk_samples, object->plan.chunk_samples);
    assert_int_equal(fill.header->seed, 7);
    assert_int_equal(fill.header->world_size, 2);
    assert_int_equal(fill.header->fingerprint, 99);
    assert_int_equal(fill.header->samples, 1000);
    assert_null(control.data);
    assert_int_equal(control.mapped_bytes, object->plan.data_offset);
    memset(ring_slot_data(&fill, 3), 0x5a, fill.header->slot_bytes);
    assert_int_equal(ring_slot_data(&reader, 3)[fill.header->slot_bytes - 1], 0x5a);
    struct batch_place place = fixture_place(0, 10, 10);
    assert_int_equal(ring_supervise(&control, NULL), 0);
    assert_true(ring_dispatch(&control, 3, &(struct ring_batch){.run = 2}, &place));
    assert_int_equal(ring_slot(&reader, 3)->count, 10);
    assert_int_equal(ring_slot(&reader, 3)->run, 2);
    ring_unmap(&fill);
    ring_unmap(&control);
    ring_unmap(&reader);
    assert_null(reader.header);
}

static bool can_write_map(int fd) {
    void *memory = mmap(NULL, RING_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED)
        return true;
    memory = mmap(NULL, RING_PAGE, PROT_READ, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED || mprotect(memory, RING_PAGE, PROT_READ | PROT_WRITE) == 0;
}

static void test_the_readers_descriptor_does_not_write(void **state) {
    struct object *object = *state;
    struct ring ring;
    struct error error = {0};
    assert_false(can_write_map(object->read_fd));
    assert_int_equal(write(object->read_fd, "x", 1), -1);
    assert_int_not_equal(ftruncate(object->read_fd, 0), 0);
    assert_int_equal(ring_map(&ring, object->read_fd, RING_FILL, &error), -EACCES);
    assert_non_null(strstr(error.text, "cannot map"));
    assert_null(ring.header);
}

// What a client of another user might try with the descriptor it was sent. Exit status: a letter a trick
// that worked.
static int play_thief(int fd) {
    char path[64];
    static const int modes[] = {O_RDWR, O_WRONLY, O_RDONLY | O_TRUNC, O_RDWR | O_TRUNC};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < COUNT_OF(modes); i++)
        if (open(path, modes[i]) >= 0) // NOLINT: not closed, the process ends
            return 'a' + (int)i;
    if (fchmod(fd, 0666) == 0)
        return 'm';
    if (can_write_map(fd))
        return 'w';
    return 0;
}

static void test_another_user_cannot_make_it_writable(void **state) {
    struct object *object = *state;
    if (geteuid() != 0) {
        print_message("skip: to become another user takes root\n");
        skip();
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
            _exit('u');
        close_fd(&object->fd);
        _exit(play_thief(object->read_fd));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

// ---- Lies -------------------------------------------------------------------------------------------------

// On the header of small_plan(): 4 slots, 10 samples, 4 chunks.
static const struct lie lies[] = {
    LIE("magic", magic, 0),
    LIE("magic", magic, RING_MAGIC + 1),
    LIE("version", version, RING_VERSION + 1),
    LIE("version", version, 0),
    LIE("version", header_bytes, sizeof(struct ring_control) + 8),
    LIE("size", total_bytes, 0),
    LIE("size", total_bytes, UINT64_MAX),
    LIE("slot count", slot_count, 0),
    LIE("place", slot_count, 5),
    LIE("slot count", slot_count, RING_MAX_SLOTS + 1),
    LIE("slot count", chunks_per_slot, 0),
    LIE("batch size", chunks_per_slot, 3),
    LIE("batch size", chunks_per_slot, 5),
    LIE("slot count", chunks_per_slot, RING_MAX_CHUNKS + 1),
    LIE("batch size", chunk_samples, 0),
    LIE("batch size", chunk_samples, 2),
    LIE("batch size", chunk_samples, 5),
    LIE("batch size", chunk_samples, UINT32_MAX),
    LIE("batch size", batch_size, 0),
    LIE("batch size", batch_size, 13),
    LIE("batch size", batch_size, CHUNK_MAX_SAMPLES + 1),
    LIE("field count", field_count, 0),
    LIE("field", field_count, 3),
    LIE("field count", field_count, RING_MAX_FIELDS + 1),
    LIE("queue size", queue_entries, 0),
    LIE("queue size", queue_entries, 2),
    LIE("queue size", queue_entries, 9),
    LIE("place", queue_entries, 1u << 31),
    LIE("place", slots_offset, 0),
    LIE("place", slots_offset, RING_PAGE + 8),
    LIE("place", slots_offset, RING_PAGE + CACHE_LINE),
    LIE("place", slots_offset, UINT64_MAX - 63),
    LIE("place", chunks_offset, 0),
    LIE("place", chunks_offset, RING_PAGE),
    LIE("place", chunks_offset, UINT64_MAX - 63),
    LIE("place", skips_offset, 0),
    LIE("place", skips_offset, UINT64_MAX - 63),
    LIE("skip bitmap", skip_words, 0),
    LIE("place", skip_words, UINT32_MAX),
    LIE("place", queue_offset, 0),
    LIE("place", queue_offset, UINT64_MAX - 63),
    LIE("place", data_offset, 0),
    LIE("place", data_offset, 4 * RING_PAGE),
    LIE("size", data_offset, UINT64_MAX),
    LIE("place", data_offset, 2 * RING_PAGE + 64),
    LIE("slot size", slot_bytes, 0),
    LIE("slot size", slot_bytes, 495616 - 8),
    LIE("place", slot_bytes, 495616 + RING_PAGE),
    LIE("outside its slot", slot_bytes, RING_PAGE),
    LIE("field type", fields[0].dtype, 0),
    LIE("field type", fields[0].dtype, 1000),
    LIE("field size", fields[0].dtype, DTYPE_F64),
    LIE("field type", fields[0].dimensions, RING_MAX_DIMS + 1),
    LIE("field size", fields[0].dimensions, 2),
    LIE("field size", fields[0].shape[1], 65),
    LIE("field size", fields[0].shape[2], 1ull << 62),
    LIE("field size", fields[1].sample_bytes, 1u << 20),
    LIE("field size", fields[1].sample_bytes, 0),
    LIE("outside its slot", fields[1].slot_offset, 0),
    LIE("outside its slot", fields[1].slot_offset, 491520 + 8),
    LIE("outside its slot", fields[1].slot_offset, 495616 - 64),
    LIE("outside its slot", fields[1].slot_offset, UINT64_MAX - 63),
};

static void test_no_lie_is_taken(void **state) {
    struct object *object = *state;
    struct ring_header honest;
    struct ring ring;
    check_lies(object->fd, lies, COUNT_OF(lies));
    assert_int_equal(pread(object->fd, &honest, sizeof honest, 0), sizeof honest);
    memset(honest.fields[1].name, 'x', sizeof honest.fields[1].name);
    assert_int_equal(pwrite(object->fd, &honest, sizeof honest, 0), sizeof honest);
    assert_int_equal(ring_map(&ring, object->fd, RING_READ, NULL), -EPROTO);
}

static void test_what_is_no_ring(void **state) {
    struct object *object = *state;
    struct ring ring;
    struct error error = {0};
    AUTO_CLOSE int empty = memfd_create("empty", MFD_CLOEXEC);
    assert_int_equal(ring_map(&ring, empty, RING_READ, &error), -EPROTO);
    assert_non_null(strstr(error.text, "too small"));
    assert_int_equal(ftruncate(empty, 3 * RING_PAGE), 0);
    assert_int_equal(ring_map(&ring, empty, RING_READ, &error), -EPROTO);
    assert_int_equal(ftruncate(object->fd, (off_t)object->plan.total_bytes - RING_PAGE), 0);
    assert_int_equal(ring_map(&ring, object->read_fd, RING_READ, &error), -EPROTO);
    assert_non_null(strstr(error.text, "size"));
    assert_int_equal(ring_map(&ring, -1, RING_READ, &error), -EBADF);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_object, end_object)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plan),
        cmocka_unit_test(test_chunks_are_bounded),
        cmocka_unit_test(test_plans_beyond_the_limits),
        CASE(test_what_was_planned_is_mapped),
        CASE(test_the_readers_descriptor_does_not_write),
        CASE(test_another_user_cannot_make_it_writable),
        CASE(test_no_lie_is_taken),
        CASE(test_what_is_no_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
