// The timeline: rings that one process writes and another reads, and the file that feedctl trace makes of it.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/scope.h"
#include "client/ctl/trace_file.h"
#include "shm/stats.h"
#include "shm/stats_read.h"
#include "shm/trace.h"

static char path[] = "/tmp/feedd-trace-XXXXXX";
static int fd;
static _Atomic uint32_t *on;
static struct stats_region *stats;
static struct trace_writer writer;
static struct trace_reader reader;

static int set_up(void **state) {
    struct error error = {0};
    (void)state;
    strcpy(path, "/tmp/feedd-trace-XXXXXX");
    int file = mkstemp(path);
    if (file < 0)
        return -1;
    close(file);
    assert_int_equal(stats_create(path, 0600, (gid_t)-1, &stats, &fd, &error), 0);
    assert_int_equal(trace_switches_open(fd, &on, &error), 0);
    assert_int_equal(trace_writer_open(fd, 3, 70, 4, &writer, &error), 0);
    assert_int_equal(trace_reader_open(path, &reader, &error), 0);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    trace_reader_close(&reader);
    munmap(stats, sizeof *stats);
    munmap((void *)on, offsetof(struct trace_region, rings));
    munmap((void *)(uintptr_t)(writer.on - 3), offsetof(struct trace_region, rings));
    munmap(writer.ring, sizeof *writer.ring);
    close(fd);
    return unlink(path);
}

static struct trace_record got[4 * TRACE_EVENTS];
static uint32_t got_count;

static void take(const struct trace_record *record, void *context) {
    (void)context;
    got[got_count++] = *record;
}

static uint32_t read_all(void) {
    got_count = 0;
    trace_read(&reader, 3, take, NULL);
    return got_count;
}

static uint64_t blocks(void) {
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    return (uint64_t)status.st_blocks;
}

static void off_it_records_and_takes_nothing(void **state) {
    (void)state;
    uint64_t before = blocks();
    assert_false(trace_is_on(&writer));
    trace_write(&writer, TRACE_FILL, 1, 2, 0);
    assert_int_equal(read_all(), 0);
    assert_int_equal(blocks(), before);
    trace_write(&(struct trace_writer){0}, TRACE_FILL, 1, 2, 0); // one that was never opened
}

static void what_is_written_is_read_once(void **state) {
    (void)state;
    assert_int_equal(trace_turn_on(fd, on, 3), 0);
    assert_int_equal(read_all(), 0);
    assert_true(trace_is_on(&writer));
    trace_write(&writer, TRACE_ROOM, 10, 20, 0);
    trace_write_of(&writer, TRACE_LEASE, 15, 25, 99, 0xffffffff, 7);
    assert_int_equal(read_all(), 2);
    const struct trace_record wanted[] = {
        {.kind = TRACE_ROOM, .begin_ns = 10, .end_ns = 20, .process = 70, .feed = 4},
        {.kind = TRACE_LEASE, .begin_ns = 15, .end_ns = 25, .process = 99, .feed = 0xffffffff, .slot = 7}};
    assert_memory_equal(got, wanted, sizeof wanted);
    assert_int_equal(read_all(), 0);
    trace_turn_off(on);
    trace_write(&writer, TRACE_ROOM, 30, 40, 0);
    assert_int_equal(trace_turn_on(fd, on, 3), 0);
    assert_int_equal(read_all(), 0);
    assert_int_equal(reader.lost, 0);
}

// What is in a ring when somebody begins to read it is from an earlier time, or of a process that is gone.
static void begins_with_what_is_new(void **state) {
    (void)state;
    struct error error = {0};
    struct trace_writer next;
    assert_int_equal(trace_turn_on(fd, on, 3), 0);
    trace_write(&writer, TRACE_ROOM, 1, 2, 0);
    assert_int_equal(read_all(), 0);
    assert_int_equal(trace_writer_open(fd, 3, 71, 5, &next, &error), 0);
    trace_write(&next, TRACE_FILL, 3, 4, 0);
    assert_int_equal(read_all(), 1);
    assert_int_equal(got[0].process, 71);
    munmap((void *)(uintptr_t)(next.on - 3), offsetof(struct trace_region, rings));
    munmap(next.ring, sizeof *next.ring);
}

static void too_many_are_counted(void **state) {
    (void)state;
    assert_int_equal(trace_turn_on(fd, on, 3), 0);
    assert_int_equal(read_all(), 0);
    const uint32_t written = 2 * TRACE_EVENTS + 5;
    for (uint32_t i = 0; i < written; i++)
        trace_write(&writer, TRACE_FILL, i, i, 0);
    uint32_t count = read_all();
    assert_int_equal(count + reader.lost, written);
    assert_int_equal(count, TRACE_EVENTS - 1); // the place of the oldest one may be being written
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(got[i].begin_ns, written - count + i);
}

// 50,000 per second, of all consumers together, and a reader that has to wait for a processor.
static void a_reader_may_be_late(void **state) {
    (void)state;
    assert_int_equal(trace_turn_on(fd, on, 3), 0);
    assert_int_equal(read_all(), 0);
    for (uint32_t i = 0; i < 50000 * 15 / 100; i++)
        trace_write(&writer, TRACE_LEASE, i, i, 0);
    assert_int_equal(read_all(), 50000 * 15 / 100);
    assert_int_equal(reader.lost, 0);
}

// Whoever has a ring can write anything there.
static void lies(void **state) {
    (void)state;
    assert_int_equal(trace_turn_on(fd, on, 3), 0);
    assert_int_equal(read_all(), 0);
    trace_write(&writer, TRACE_KINDS, 1, 2, 0);
    trace_write(&writer, (enum trace_kind)0, 1, 2, 0);
    trace_write(&writer, TRACE_FILL, 2, 1, 0);
    assert_int_equal(read_all(), 0);
    atomic_store(&writer.ring->count, UINT64_MAX);
    assert_true(read_all() <= TRACE_EVENTS);
    atomic_store(&writer.ring->count, 1);
    assert_int_equal(read_all(), 0);
    assert_int_equal(reader.counts[3], 1);
}

// A writer that is faster than its reader, in a process of its own: what is read is whole.
static void no_event_is_torn(void **state) {
    (void)state;
    assert_int_equal(trace_turn_on(fd, on, 3), 0);
    assert_int_equal(read_all(), 0);
    pid_t child = fork();
    if (child == 0) {
        for (uint32_t i = 1; i <= 3000000; i++)
            trace_write_of(&writer, TRACE_FILL, i, 2ull * i, i, i ^ 0x5555, i ^ 0xaaaa);
        _exit(0);
    }
    int status;
    uint64_t seen = 0, last = 0;
    for (bool more = true; more;) {
        more = waitpid(child, &status, WNOHANG) == 0;
        read_all();
        for (uint32_t i = 0; i < got_count; i++) {
            uint64_t number = got[i].begin_ns;
            assert_true(number > last);
            last = number;
            assert_int_equal(got[i].end_ns, 2 * number);
            assert_int_equal(got[i].process, number);
            assert_int_equal(got[i].feed, number ^ 0x5555);
            assert_int_equal(got[i].slot, number ^ 0xaaaa);
        }
        seen += got_count;
    }
    assert_true(seen > 0);
    assert_int_equal(seen + reader.lost, 3000000);
}

static void other_files_are_refused(void **state) {
    (void)state;
    struct error error = {0};
    struct trace_reader other;
    struct trace_writer none;
    assert_int_equal(ftruncate(fd, STATS_FILE_BYTES - 1), 0);
    assert_int_equal(trace_reader_open(path, &other, &error), -EPROTO);
    assert_int_equal(trace_reader_open("/nonexistent", &other, &error), -ENOENT);
    assert_int_equal(trace_writer_open(fd, TRACE_RINGS, 1, 1, &none, &error), -EINVAL);
    assert_int_equal(ftruncate(fd, STATS_FILE_BYTES), 0);
}

// Files may not be as large as one with a timeline: the statistics are there all the same.
static void without_room_for_rings(void **state) {
    (void)state;
    const struct stats_region *seen = NULL;
    struct stats_region *region = NULL;
    struct trace_reader other;
    struct error error = {0};
    struct rlimit before, least;
    _Atomic uint32_t *switches = NULL;
    int file = -1;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    least = (struct rlimit){STATS_FILE_LEAST, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN); // as the daemon does
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &least), 0);
    const int made = stats_create(path, 0600, (gid_t)-1, &region, &file, &error);
    const int turned_on = made ? made : trace_switches_open(file, &switches, &error);
    const int err = turned_on ? turned_on : trace_turn_on(file, switches, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(made, 0);
    assert_int_equal(err, -EFBIG);
    assert_int_equal(switches[0], 0);
    assert_int_equal(stats_open(path, &seen, &error), 0);
    assert_int_equal(trace_reader_open(path, &other, &error), -EFBIG);
    assert_non_null(strstr(error.text, "RLIMIT_FSIZE"));
    munmap((void *)switches, offsetof(struct trace_region, rings));
    stats_close(seen);
    stats_close(region);
    close(file);
}

// ---- The file ----------------------------------------------------------------------------------------------

static json_t *find(json_t *events, const char *kind, const char *name) {
    size_t i;
    json_t *event;
    json_array_foreach(events, i,
                       event) if (strcmp(json_string_value(json_object_get(event, "ph")), kind) == 0 &&
                                  strcmp(json_string_value(json_object_get(event, "name")), name) ==
                                      0) return event;
    fail_msg("there is no %s %s", kind, name);
    return NULL;
}

static double number(json_t *event, const char *key) {
    return json_number_value(json_object_get(event, key));
}

static const char *local(json_t *event) {
    return json_string_value(json_object_get(json_object_get(event, "id2"), "local"));
}

static void the_file_is_json(void **state) {
    (void)state;
    char *text AUTO_FREE = NULL;
    size_t bytes;
    struct trace_file file;
    struct error error = {0};
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    trace_file_begin(&file, out);
    uint64_t begin = file.begin_ns;
    trace_file_name(&file, 70, "loader \"of\" \\ \n");
    trace_file_name(&file, 70, "again");
    trace_file_put(
        &file,
        &(struct trace_record){
            .kind = TRACE_ROOM, .begin_ns = begin + 1500, .end_ns = begin + 4000, .process = 70, .feed = 4});
    trace_file_put(&file, &(struct trace_record){.kind = TRACE_LEASE,
                                                 .begin_ns = begin - 1,
                                                 .end_ns = begin + 1000,
                                                 .process = 99,
                                                 .feed = 4,
                                                 .slot = 7});
    trace_file_put(&file,
                   &(struct trace_record){.kind = TRACE_WAIT, .begin_ns = begin - 9, .end_ns = begin - 2});
    assert_int_equal(trace_file_end(&file, 3, &error), 0);
    fclose(out);
    json_error_t where;
    json_t *json = json_loads(text, 0, &where);
    if (!json)
        fail_msg("line %d: %s in\n%s", where.line, where.text, text);
    json_t *events = json_object_get(json, "traceEvents");
    assert_int_equal(json_integer_value(json_object_get(json, "lostEvents")), 3);
    assert_int_equal(json_array_size(events), 5);
    json_t *name = json_object_get(json_object_get(find(events, "M", "process_name"), "args"), "name");
    assert_string_equal(json_string_value(name), "loader \"of\" \\ ?");
    json_t *room = find(events, "X", "no room"), *begun = find(events, "b", "lease"),
           *ended = find(events, "e", "lease");
    assert_true(number(room, "ts") == 1.5 && number(room, "dur") == 2.5);
    assert_true(number(room, "pid") == 70 &&
                number(find(events, "M", "thread_name"), "tid") == number(room, "tid"));
    // What began before is cut; what has ended before is not in it.
    assert_true(number(begun, "ts") == 0 && number(ended, "ts") == 1);
    assert_true(number(json_object_get(begun, "args"), "earlier_us") == 0.001);
    assert_null(json_object_get(json_object_get(room, "args"), "earlier_us"));
    assert_string_equal(local(begun), local(ended));
    assert_true(number(json_object_get(begun, "args"), "slot") == 7);
    json_decref(json);
}

int main(void) {
#define CHECK(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CHECK(off_it_records_and_takes_nothing),
        CHECK(what_is_written_is_read_once),
        CHECK(begins_with_what_is_new),
        CHECK(too_many_are_counted),
        CHECK(a_reader_may_be_late),
        CHECK(lies),
        CHECK(no_event_is_torn),
        CHECK(other_files_are_refused),
        CHECK(without_room_for_rings),
        cmocka_unit_test(the_file_is_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
