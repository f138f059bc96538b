// Files that cannot be mapped, from the start or at a later attempt: the mapped reader reads them instead, and no
// sample is lost.
#include "tests/unit/reader_fixture.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/sizes.h"
#include "daemon/loader/read/file_maps.h"
#include "shm/ring_loader.h"

// What the mmap below is to refuse, and what it has seen.
static struct {
    int error;          // 0: it refuses nothing
    uint32_t files;     // bits: which files it refuses
    bool only_again;    // a first map is granted
    uint32_t attempts;  // to map files
    uint8_t *starts[8]; // the maps of files
} mapping;

// In place of the library's, for all of feedd that is linked into this program.
void *mmap(void *start, size_t bytes, int protection, int flags, int fd, off_t offset) {
    int file = fd - FIRST_FD;
    bool ours = file >= 0 && file < (int)COUNT_OF(mapping.starts);
    if (ours) {
        mapping.attempts++;
        if (mapping.error && mapping.files & 1u << file && (!mapping.only_again || flags & MAP_FIXED)) {
            errno = mapping.error;
            return MAP_FAILED;
        }
    }
    void *made = (void *)syscall(SYS_mmap, start, bytes, protection, flags, fd, offset);
    if (ours)
        mapping.starts[file] = made;
    return made;
}

static void refuse(int error, uint32_t files) {
    memset(&mapping, 0, sizeof mapping);
    mapping.error = error;
    mapping.files = files;
}

static struct reader *open_mapped(struct setting *setting, uint64_t table_bytes) {
    setting->options.table_bytes = table_bytes;
    return open_reader(MAPPED, &setting->options);
}

// Reads a chunk of random samples, which must all arrive.
static void read_chunk(struct setting *setting, struct reader *reader, uint32_t flags, uint64_t *random) {
    struct chunk_plan *plan = &setting->plan;
    struct ring_claim claim = {.count = plan->capacity};
    bool skipped[512] = {0};
    int err = 0;
    fixture_shuffle(&setting->fixture, plan, claim.count, random);
    assert_int_equal(chunk_plan_fill(plan, &claim, flags), 0);
    assert_int_equal(read_plan(reader, plan, &err, skipped), 0);
    fixture_check(&setting->fixture, plan, NULL);
}

static void every_shape(int error, uint32_t files) {
    static const struct fixture_shape shapes[] = {
        {ONE_FIELD(784), .files = 3, .file_samples = {400, 1, 300}, .header_bytes = 16, .batch = 256,
         .slots = 1},
        {.streams = 2,
         .stream = {{.record_bytes = 3074, .extents = 2, .extent = {{1, 1}, {2, 3072}}},
                    {.record_bytes = 4100, .extents = 3, .extent = {{0, 1}, {100, 2000}, {4000, 50}}}},
         .files = 2,
         .file_samples = {200, 300},
         .header_bytes = 7,
         .batch = 200,
         .slots = 1},
        {ONE_FIELD(1500001), .files = 2, .file_samples = {2, 3}, .header_bytes = 80, .batch = 3, .slots = 1},
        {ONE_FIELD(3001), .files = 2, .file_samples = {100, 57}, .header_bytes = 16, .direct = 512,
         .batch = 100, .slots = 1},
    };
    uint64_t random = 5;
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        struct setting setting;
        set_up(&setting, &shapes[i]);
        refuse(error, files);
        struct reader *reader = open_mapped(&setting, UINT64_MAX);
        assert_int_equal(reader->reason, REASON_NONE);
        for (int round = 0; round < 3; round++)
            read_chunk(&setting, reader, round ? CHUNK_MERGE : 0, &random);
        assert_int_equal(reader->kind, READER_MAPPED);
        assert_int_equal(reader->reason, REASON_UNMAPPED);
        assert_in_range(mapping.attempts, 1, setting.fixture.layout->file_count); // each is tried once
        assert_true(reader->reads > 0 && reader->storage_bytes > 0);
        reader->close(reader);
        tear_down(&setting);
    }
}

static void file_system_that_cannot_map(void **state) {
    (void)state;
    every_shape(ENODEV, ~0u);
}

static void one_file_of_several(void **state) {
    (void)state;
    every_shape(ENOMEM, 1u << 0);
    every_shape(EACCES, 1u << 1);
}

static void all_is_mapped(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(784), .files = 2, .file_samples = {40, 60}, .batch = 50,
                                  .slots = 1};
    struct setting setting;
    uint64_t random = 9;
    set_up(&setting, &shape);
    refuse(0, 0);
    struct reader *reader = open_mapped(&setting, UINT64_MAX);
    read_chunk(&setting, reader, 0, &random);
    assert_int_equal(reader->reason, REASON_NONE);
    reader->close(reader);
    tear_down(&setting);
}

// What is missing is reported, alone, as with every other reader.
static void truncated_file(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(6000), .files = 2, .file_samples = {30, 30}, .batch = 60,
                                  .slots = 1};
    struct setting setting;
    set_up(&setting, &shape);
    refuse(ENODEV, 1u << 1);
    struct chunk_plan *plan = &setting.plan;
    struct reader *reader = open_mapped(&setting, UINT64_MAX);
    struct ring_claim claim = {.count = 60};
    bool skipped[60] = {0};
    int err = 0;
    for (uint32_t i = 0; i < 60; i++)
        plan->samples[i] = i;
    assert_int_equal(ftruncate(FIRST_FD + 1, 20 * 6000 + 3000), 0);
    assert_int_equal(chunk_plan_fill(plan, &claim, 0), 0);
    assert_int_equal(read_plan(reader, plan, &err, skipped), 10);
    assert_int_equal(err, -ENODATA);
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(skipped[i], i >= 50);
    fixture_check(&setting.fixture, plan, skipped);
    reader->close(reader);
    tear_down(&setting);
}

// A copy that faults although the file is long enough is not yet an unreadable sample.
static void map_that_faults(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(5000), .files = 2, .file_samples = {60, 60}, .batch = 100,
                                  .slots = 1};
    struct setting setting;
    uint64_t random = 11;
    set_up(&setting, &shape);
    refuse(0, 0);
    struct reader *reader = open_mapped(&setting, UINT64_MAX);
    read_chunk(&setting, reader, 0, &random);
    assert_int_equal(mprotect(mapping.starts[1], setting.fixture.layout->files[1].bytes, PROT_NONE), 0);
    read_chunk(&setting, reader, 0, &random);
    reader->close(reader);
    tear_down(&setting);
}

// Makes the process's page tables grow, with a fault per page. Half of it stays.
static void touch_memory(void) {
    uint8_t *memory = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    madvise(memory, 8 * MIB, MADV_NOHUGEPAGE);
    memset(memory, 1, 8 * MIB);
    munmap(memory, 4 * MIB);
}

// The page tables may not grow, so files are mapped again, which fails for one of them with reads of both waiting.
static void not_mapped_again(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(784), .files = 2, .file_samples = {200, 200}, .batch = 400,
                                  .slots = 1};
    struct setting setting;
    uint64_t random = 13;
    set_up(&setting, &shape);
    setting.options.depth = 400;
    refuse(ENOMEM, 1u << 1);
    mapping.only_again = true;
    struct reader *reader = open_mapped(&setting, 0);
    touch_memory();
    read_chunk(&setting, reader, 0, &random);
    assert_true(mapping.attempts >= 4); // or this shows nothing
    assert_int_equal(reader->reason, REASON_UNMAPPED);
    read_chunk(&setting, reader, CHUNK_MERGE, &random);
    reader->close(reader);
    tear_down(&setting);
}

static void maps_are_counted(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(100), .files = 4, .file_samples = {9, 9, 9, 9}, .batch = 4,
                                  .slots = 1};
    struct setting setting;
    struct file_maps maps;
    set_up(&setting, &shape);
    refuse(0, 0);
    assert_int_equal(file_maps_open(&maps, setting.fixture.layout, FIRST_FD), 0);
    // The default of vm.max_map_count, 65530, must do for most of the files of the largest dataset.
    assert_in_range(maps.made_most, 1, UINT32_MAX);
    maps.made_most = 2;
    assert_non_null(file_maps_find(&maps, 3));
    assert_non_null(file_maps_find(&maps, 0));
    assert_null(file_maps_find(&maps, 1));
    assert_non_null(file_maps_find(&maps, 3));
    assert_int_equal(mapping.attempts, 2);
    // One that is lost makes no room for another: what is refused stays so.
    refuse(ENOMEM, 1u << 0);
    assert_true(file_maps_renew(&maps));
    assert_int_equal(maps.made, 1);
    assert_null(file_maps_find(&maps, 0));
    assert_null(file_maps_find(&maps, 1));
    assert_false(file_maps_renew(&maps));
    file_maps_close(&maps);
    tear_down(&setting);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

static void little_address_space(void **state) {
    (void)state;
    print_message("skip: a sanitizer's shadow memory takes all the address space\n");
    skip();
}

#else

static uint64_t address_space(void) {
    char line[64];
    FILE *file = fopen("/proc/self/statm", "re");
    assert_true(file && fgets(line, sizeof line, file));
    fclose(file);
    return strtoull(line, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

// In a child: some of the files fit, all are read, and memory can still be allocated.
static void read_in_little_space(struct setting *setting) {
    struct reader *reader = open_mapped(setting, UINT64_MAX);
    uint64_t random = 17, space = address_space() + 24 * MIB;
    if (setrlimit(RLIMIT_AS, &(struct rlimit){space, space}) < 0)
        _exit(1);
    read_chunk(setting, reader, 0, &random);
    if (reader->reason != REASON_UNMAPPED || mapping.attempts != 4)
        _exit(2);
    _exit(malloc(10 * MIB) ? 0 : 3);
}

static void little_address_space(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(32 << 10), .files = 4, .file_samples = {100, 100, 100, 100},
                                  .batch = 300, .slots = 1};
    struct setting setting;
    set_up(&setting, &shape);
    refuse(0, 0);
    pid_t child = fork();
    if (child == 0)
        read_in_little_space(&setting);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    tear_down(&setting);
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_system_that_cannot_map),
        cmocka_unit_test(one_file_of_several),
        cmocka_unit_test(all_is_mapped),
        cmocka_unit_test(truncated_file),
        cmocka_unit_test(map_that_faults),
        cmocka_unit_test(not_mapped_again),
        cmocka_unit_test(maps_are_counted),
        cmocka_unit_test(little_address_space),
    };
    return cmocka_run_group_tests_name("reader_unmapped", tests, NULL, NULL);
}
