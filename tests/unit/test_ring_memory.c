// Memory that a loader maps before it is a ring's: whose ring it becomes, and what is allocated of it.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm/ring.h"
#include "tests/unit/prepared_fixture.h"

static struct object { int fd, read_fd; } object;

static int begin(void **state) {
    (void)state;
    struct error error = {0};
    return ring_prepare(BYTES, &object.fd, &object.read_fd, &error);
}

static int end(void **state) {
    (void)state;
    close_fd(&object.fd);
    close_fd(&object.read_fd);
    return 0;
}

static void become(const struct ring_plan *plan) {
    struct error error = {0};
    uint64_t prepared = BYTES;
    assert_int_equal(ring_adopt(plan, object.fd, &prepared, &error), 0);
    assert_int_equal(ring_write_header(plan, object.fd, &error), 0);
}

static uint64_t allocated(int fd) {
    return (uint64_t)look_at(fd).st_blocks * 512;
}

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

// By the kernel, as loaders do: a sanitizer would have faults of its own.
static long faults_of_reading(uint8_t *into, size_t bytes) {
    AUTO_CLOSE int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    const long before = faults();
    assert_int_equal(syscall(SYS_read, zeros, into, bytes), bytes);
    return faults() - before;
}

// Since Linux 5.14.
static bool populates(void) {
    static uint8_t page[8192];
    return madvise((void *)align_up((uint64_t)(uintptr_t)page, 4096), 4096, MADV_POPULATE_WRITE) == 0;
}

static bool is_mapped(const void *memory) {
    uint8_t resident;
    return mincore((void *)memory, 4096, &resident) == 0;
}

static void it_becomes_the_ring(void **state) {
    (void)state;
    const uint32_t slots[] = {1, 20, 200}; // smaller, larger, and larger than the addresses that are reserved
    for (size_t i = 0; i < COUNT_OF(slots); i++) {
        struct error error = {0};
        struct ring_plan plan = plan_of(slots[i], MIB);
        struct ring_memory memory;
        struct ring ring;
        ring_memory_map(&memory, object.fd, BYTES);
        assert_non_null(memory.memory);
        const void *before = memory.memory;
        become(&plan);
        assert_int_equal(ring_map_prepared(&ring, object.fd, &memory, &error), 0);
        assert_null(memory.memory);
        assert_true(slots[i] > 60 || (const void *)ring.control == before);
        assert_int_equal(ring.mapped_bytes, plan.total_bytes);
        const long found = faults_of_reading(ring.data, MIB);
        assert_true(!populates() || found < 16);
        ring_unmap(&ring);
        assert_int_equal(end(NULL), 0);
        assert_int_equal(begin(NULL), 0);
    }
}

static void another_ring_unmaps_it(void **state) {
    (void)state;
    struct error error = {0};
    struct ring_plan plan = plan_of(4, MIB);
    struct ring_memory memory;
    struct ring ring;
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int read_fd = -1;
    ring_memory_map(&memory, object.fd, BYTES);
    const void *before = memory.memory;
    assert_true(is_mapped(before));
    assert_int_equal(ring_create(&plan, &fd, &read_fd, &error), 0);
    assert_int_equal(ring_allocate_control(&plan, fd, &error), 0);
    const uint64_t had = allocated(fd);
    assert_int_equal(ring_map_prepared(&ring, fd, &memory, &error), 0);
    assert_null(memory.memory);
    assert_int_equal(allocated(fd), had);
    assert_true((const void *)ring.control == before || !is_mapped(before));
    ring_unmap(&ring);
    assert_false(is_mapped(before));
}

// It is a feed's already, which has not allocated all of it.
static void it_is_mapped_late(void **state) {
    (void)state;
    struct error error = {0};
    struct ring_plan plan = plan_of(20, MIB);
    struct ring_memory memory;
    struct ring ring;
    become(&plan);
    ring_memory_map(&memory, object.fd, BYTES);
    assert_int_equal(allocated(object.fd), BYTES);
    assert_int_equal(ring_map_prepared(&ring, object.fd, &memory, &error), 0);
    assert_int_equal(ring.mapped_bytes, plan.total_bytes);
    assert_int_equal(allocated(object.fd), BYTES);
    ring_unmap(&ring);
}

static void what_cannot_be_mapped(void **state) {
    (void)state;
    struct error error = {0};
    struct ring_memory memory = {.memory = &error};
    struct ring ring;
    ring_memory_map(&memory, -1, BYTES);
    assert_null(memory.memory);
    ring_memory_map(&memory, object.read_fd, BYTES); // for reading only
    assert_null(memory.memory);
    ring_memory_map(&memory, object.fd, BYTES);
    const void *before = memory.memory;
    assert_int_equal(ring_map_prepared(&ring, -1, &memory, &error), -EBADF);
    assert_false(is_mapped(before));
    ring_memory_map(&memory, object.fd, BYTES); // no header: not a ring
    before = memory.memory;
    assert_int_equal(ring_map_prepared(&ring, object.fd, &memory, &error), -EPROTO);
    assert_false(is_mapped(before));
    ring_memory_unmap(&memory); // nothing
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(it_becomes_the_ring),
        CASE(another_ring_unmaps_it),
        CASE(it_is_mapped_late),
        CASE(what_cannot_be_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
