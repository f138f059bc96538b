// The three readers over real files, through the same cases: whatever the reader, the planned bytes arrive, and what
// cannot be read is reported, alone, and does no other harm.
#include "tests/unit/reader_fixture.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "daemon/loader/read/request.h"
#include "shm/ring_loader.h"

// Reads `rounds` chunks with every reader and checks them.
static void read_chunks(struct setting *setting, int rounds, bool shuffled, uint32_t flags) {
    struct chunk_plan *plan = &setting->plan;
    uint64_t random = 3;
    for (int which = 0; which < READERS; which++) {
        struct reader *reader = open_reader(which, &setting->options);
        for (int round = 0; round < rounds; round++) {
            struct ring_claim claim = {.slot = (uint32_t)round % setting->fixture.ring.header->slot_count,
                                       .count = plan->capacity};
            if (shuffled)
                fixture_shuffle(&setting->fixture, plan, claim.count, &random);
            for (uint32_t i = 0; !shuffled && i < claim.count; i++)
                plan->samples[i] =
                    setting->fixture.layout->samples - claim.count + i; // to the end of the file
            assert_int_equal(chunk_plan_fill(plan, &claim, flags), 0);
            int err = 0;
            bool skipped[512] = {0};
            assert_int_equal(read_plan(reader, plan, &err, skipped), 0);
            fixture_check(&setting->fixture, plan, NULL);
            assert_true(reader->reads >= plan->request_count);
        }
        assert_true(reader->storage_bytes > 0);
        reader->close(reader);
    }
}

// ---- Cases of every reader ----------------------------------------------------------------------------------

static void every_shape(const struct fixture_shape *shape) {
    struct setting setting;
    set_up(&setting, shape);
    read_chunks(&setting, 3, true, 0);
    read_chunks(&setting, 3, true, CHUNK_MERGE | CHUNK_SORT);
    read_chunks(&setting, 2, false, CHUNK_MERGE);
    setting.options.depth = 1;
    read_chunks(&setting, 1, true, 0);
    setting.options.depth = 500;
    setting.options.ring = NULL; // nothing registered
    read_chunks(&setting, 1, true, 0);
    tear_down(&setting);
}

static void small_samples(void **state) {
    (void)state;
    every_shape(&(struct fixture_shape){ONE_FIELD(784), .files = 3, .file_samples = {400, 1, 300},
                                        .header_bytes = 16, .batch = 256, .slots = 3});
}

static void several_fields(void **state) {
    (void)state;
    every_shape(&(struct fixture_shape){
        .streams = 2,
        .stream = {{.record_bytes = 3074, .extents = 2, .extent = {{1, 1}, {2, 3072}}},
                   {.record_bytes = 4100, .extents = 3, .extent = {{0, 1}, {100, 2000}, {4000, 50}}}},
        .files = 2,
        .file_samples = {200, 300},
        .header_bytes = 7,
        .batch = 200,
        .slots = 2});
}

static void large_samples(void **state) {
    (void)state;
    every_shape(&(struct fixture_shape){ONE_FIELD(1500001), .files = 2, .file_samples = {2, 3},
                                        .header_bytes = 80, .batch = 3, .slots = 2});
}

static void direct_samples(void **state) {
    (void)state;
    every_shape(&(struct fixture_shape){ONE_FIELD(3001), .files = 2, .file_samples = {100, 57},
                                        .header_bytes = 16, .direct = 512, .batch = 100, .slots = 2});
    every_shape(&(struct fixture_shape){ONE_FIELD(4096), .files = 1, .file_samples = {300},
                                        .header_bytes = 4096, .slot_align = 4096, .direct = 4096,
                                        .batch = 200, .slots = 2});
    every_shape(&(struct fixture_shape){
        .streams = 1,
        .stream = {{.record_bytes = 9000, .extents = 2, .extent = {{5, 8}, {100, 7000}}}},
        .files = 1,
        .file_samples = {100},
        .direct = 512,
        .batch = 60,
        .slots = 2});
}

// More than the bounce memory holds at once, and ends that alone are bounced.
static void direct_large_samples(void **state) {
    (void)state;
    every_shape(&(struct fixture_shape){ONE_FIELD(700001), .files = 1, .file_samples = {24},
                                        .header_bytes = 16, .direct = 512, .batch = 20, .slots = 1});
    every_shape(&(struct fixture_shape){ONE_FIELD(700000), .files = 1, .file_samples = {6},
                                        .header_bytes = 1024, .slot_align = 4096, .direct = 512, .batch = 5,
                                        .slots = 2});
}

// ---- What fails ---------------------------------------------------------------------------------------------

// The second file loses its last samples under the reader, which reports only those and continues.
static void truncate_under(uint32_t direct) {
    struct fixture_shape shape = {ONE_FIELD(6000),  .files = 2,  .file_samples = {30, 30},
                                  .direct = direct, .batch = 60, .slots = 2};
    for (int which = 0; which < READERS; which++) {
        struct setting setting;
        set_up(&setting, &shape);
        struct chunk_plan *plan = &setting.plan;
        struct reader *reader = open_reader(which, &setting.options);
        bool skipped[60] = {0};
        int err = 0;
        struct ring_claim claim = {.count = 60};
        for (uint32_t i = 0; i < 60; i++)
            plan->samples[i] = 59 - i;
        assert_int_equal(chunk_plan_fill(plan, &claim, 0), 0);
        assert_int_equal(read_plan(reader, plan, &err, skipped), 0);
        fixture_check(&setting.fixture, plan, NULL);

        assert_int_equal(ftruncate(FIRST_FD + 1, 20 * 6000 + 3000), 0);
        memset(setting.fixture.contents[1] + 20 * 6000 + 3000, 0, 9 * 6000 + 3000);
        assert_int_equal(chunk_plan_fill(plan, &claim, 0), 0);
        uint32_t failed = read_plan(reader, plan, &err, skipped);
        assert_int_equal(err, -ENODATA);
        // A map is cut by the page: what was sample 50 reads on as zeros to the end of its page.
        assert_in_range(failed, which == MAPPED ? 8 : 10, 10);
        for (uint32_t i = 0; i < 60; i++)
            assert_false(skipped[i] && i > 9);
        fixture_check(&setting.fixture, plan, skipped);

        claim.slot = 1; // the reader still works
        for (uint32_t i = 0; i < 30; i++)
            plan->samples[i] = i;
        claim.count = 30;
        assert_int_equal(chunk_plan_fill(plan, &claim, CHUNK_MERGE), 0);
        assert_int_equal(read_plan(reader, plan, &err, skipped), 0);
        fixture_check(&setting.fixture, plan, NULL);
        reader->close(reader);
        tear_down(&setting);
    }
}

static void truncated_file(void **state) {
    (void)state;
    truncate_under(0);
    truncate_under(512);
}

static void wrong_descriptor(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(100), .files = 1, .file_samples = {30}, .batch = 10, .slots = 1};
    for (int which = 0; which < READERS; which++) {
        struct setting setting;
        set_up(&setting, &shape);
        close(FIRST_FD);
        assert_int_equal(dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), FIRST_FD), FIRST_FD);
        struct reader *reader = open_reader(which, &setting.options);
        struct ring_claim claim = {.count = 10};
        bool skipped[10] = {0};
        int err = 0;
        assert_int_equal(chunk_plan_fill(&setting.plan, &claim, 0), 0);
        assert_int_equal(read_plan(reader, &setting.plan, &err, skipped), 10);
        assert_true(err == -EBADF || err == -EACCES || err == -ENODEV);
        reader->close(reader);
        tear_down(&setting);
    }
}

// In a child: a fault that is not the map's must be as deadly as ever, with the mapped reader open.
static void other_faults_kill(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_FIELD(100), .files = 1, .file_samples = {30}, .batch = 10, .slots = 1};
    struct setting setting;
    set_up(&setting, &shape);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGSEGV, SIG_DFL); // cmocka's
        struct ring_claim claim = {.count = 10};
        chunk_plan_fill(&setting.plan, &claim, 0);
        setting.plan.pieces[0].iov_base = (void *)64;
        int err;
        bool skipped[10];
        read_plan(open_reader(MAPPED, &setting.options), &setting.plan, &err, skipped);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    tear_down(&setting);
}

// Short reads are rare, so continuing them is tested here without a file.
static void short_reads_go_on(void **state) {
    (void)state;
    uint8_t memory[3000];
    struct iovec pieces[] = {{memory, 10}, {memory + 50, 20}, {memory + 80, 5}};
    struct dataset_file file = {0};
    struct read_request request = {.offset = 1000, .bytes = 35, .pieces = pieces, .piece_count = 3};
    struct request_rest rest = request_rest(&file, &request, NULL);
    assert_true(rest.offset == 1000 && rest.bytes == 35 && rest.piece_count == 3 && rest.pieces == pieces);
    assert_int_equal(request_advance(&file, &request, NULL, -EINTR), REQUEST_CONTINUE);
    assert_int_equal(request_advance(&file, &request, NULL, 14), REQUEST_CONTINUE);
    rest = request_rest(&file, &request, NULL);
    assert_true(rest.offset == 1014 && rest.bytes == 16 && rest.memory == memory + 54);
    assert_int_equal(request_advance(&file, &request, NULL, 16), REQUEST_CONTINUE);
    rest = request_rest(&file, &request, NULL);
    assert_true(rest.offset == 1030 && rest.bytes == 5 && rest.memory == memory + 80);
    assert_int_equal(request_advance(&file, &request, NULL, 5), REQUEST_COMPLETE);
    assert_int_equal(request.result, 0);
    request.done = 10;
    rest = request_rest(&file, &request, NULL);
    assert_true(rest.offset == 1010 && !rest.memory && rest.pieces == pieces + 1 && rest.piece_count == 2);
    assert_int_equal(request_advance(&file, &request, NULL, 0), REQUEST_COMPLETE);
    assert_int_equal(request.result, -ENODATA);
    assert_int_equal(request_advance(&file, &request, NULL, -EIO), REQUEST_COMPLETE);
    assert_int_equal(request.result, -EIO);

    file.direct_memory = file.direct_offset = 512;
    request = (struct read_request){.offset = 1000, .bytes = 2000, .pieces = pieces, .piece_count = 1};
    assert_true(bounce_needed(&file, &request));
    rest = request_rest(&file, &request, memory);
    assert_true(rest.offset == 512 && rest.bytes == 2560);
    assert_int_equal(request_advance(&file, &request, memory, 512), REQUEST_CONTINUE);
    rest = request_rest(&file, &request, memory);
    assert_true(rest.offset == 1024 && rest.bytes == 2048 && rest.memory == memory + 512);
    assert_int_equal(request_advance(&file, &request, memory, 100),
                     REQUEST_COMPLETE); // the end, within a block
    assert_int_equal(request.result, -ENODATA);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_samples),        cmocka_unit_test(several_fields),
        cmocka_unit_test(large_samples),        cmocka_unit_test(direct_samples),
        cmocka_unit_test(direct_large_samples), cmocka_unit_test(short_reads_go_on),
        cmocka_unit_test(truncated_file),       cmocka_unit_test(wrong_descriptor),
        cmocka_unit_test(other_faults_kill),
    };
    return cmocka_run_group_tests_name("reader", tests, NULL, NULL);
}
