// The statistics region: making and opening it, what a snapshot adds up, and what readers see while it is
// being written.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/error.h"
#include "shm/stats.h"
#include "shm/stats_read.h"
#include "shm/trace.h"
#include "tests/unit/mappings.h"

static char folder[64], path[128];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_stats.XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/feedd.sock.stats", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder); // fails if anything was left
}

static struct stats_region *create(int *fd) {
    struct stats_region *region = NULL;
    struct error error = {0};
    if (stats_create(path, 0640, (gid_t)-1, &region, fd, &error) < 0)
        fail_msg("%s", error.text);
    return region;
}

static const struct stats_region *open_region(void) {
    const struct stats_region *region = NULL;
    struct error error = {0};
    if (stats_open(path, &region, &error) < 0)
        fail_msg("%s", error.text);
    return region;
}

static struct stats_snapshot *snapshot_of(const struct stats_region *region) {
    static struct stats_snapshot snapshot;
    stats_snapshot(region, &snapshot);
    return &snapshot;
}

static void name_feed(struct stats_feed *feed, uint64_t id, const char *name) {
    stats_feed_write_begin(feed);
    feed->id = id;
    snprintf(feed->name, sizeof feed->name, "%s", name);
    snprintf(feed->dataset, sizeof feed->dataset, "data of %s", name);
    feed->batch_size = 100 + id;
    feed->world_size = 200 + id;
    feed->slot_count = 300 + id;
    feed->ring_bytes = 400 + id;
    feed->started_ns = 500 + id;
    stats_feed_write_end(feed);
}

static void give_record(struct stats_region *all, uint32_t record, uint64_t feed) {
    atomic_store_explicit(&all->owners.feed[record], feed, memory_order_release);
}

// ---- The file ---------------------------------------------------------------------------------------------

static void test_the_path_follows_the_socket(void **state) {
    (void)state;
    char text[32];
    assert_int_equal(stats_path("/run/feedd/feedd.sock", text, sizeof text), 0);
    assert_string_equal(text, "/run/feedd/feedd.sock.stats");
    assert_int_equal(stats_path("/run/feedd/feedd.sock", text, 27), -ENAMETOOLONG);
    assert_int_equal(stats_path("/run/feedd/feedd.sock", text, 28), 0);
}

static void test_what_is_created_can_be_opened(void **state) {
    (void)state;
    struct stat status;
    AUTO_CLOSE int fd = -1;
    struct stats_region *region = create(&fd);
    const struct stats_region *seen = open_region();
    struct stats_snapshot *snapshot = snapshot_of(seen);
    assert_int_equal(snapshot->pid, getpid());
    assert_int_equal(snapshot->heartbeat_ns, snapshot->started_ns);
    assert_true(snapshot->started_ns && snapshot->started_ns <= snapshot->taken_ns);
    assert_int_equal(snapshot->feed_count, 0);
    assert_int_equal(snapshot->gpu_count, 0);
    assert_false(snapshot->stopped);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    assert_int_equal(status.st_size, STATS_FILE_BYTES);
    // The rings of the timeline take no memory yet.
    assert_true((uint64_t)status.st_blocks * 512 < sizeof *region + 64 * RING_PAGE);
    assert_true((uint64_t)status.st_blocks * 512 >= sizeof *region);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    atomic_store(&region->header.heartbeat_ns, 77);
    atomic_store(&region->header.stopped, 1);
    atomic_store(&region->header.sessions, 3);
    atomic_store(&region->header.ring_bytes, 4);
    region->header.ring_memory = 5;
    assert_int_equal(snapshot_of(seen)->heartbeat_ns, 77);
    assert_true(snapshot->stopped);
    assert_int_equal(snapshot->sessions, 3);
    assert_int_equal(snapshot->ring_bytes, 4);
    assert_int_equal(snapshot->ring_memory, 5);
    uint64_t before = mapped_bytes();
    stats_close(seen);
    stats_close(region);
    stats_close(NULL);
    assert_int_equal(mapped_bytes(), before - 2 * sizeof *region);
}

static void test_the_mode_is_not_the_masks(void **state) {
    (void)state;
    struct stat status;
    mode_t mask = umask(0077);
    AUTO_CLOSE int fd = -1;
    stats_close(create(&fd));
    umask(mask);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
}

// A new daemon's file replaces the old one; a process that has mapped the old one still sees that.
static void test_an_old_file_is_replaced_under_its_readers(void **state) {
    (void)state;
    AUTO_CLOSE int first_fd = -1;
    AUTO_CLOSE int second_fd = -1;
    char fresh[160];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    close(open(fresh, O_CREAT | O_WRONLY, 0600)); // what a killed daemon may leave
    struct stats_region *first = create(&first_fd);
    atomic_store(&first->header.sessions, 1);
    const struct stats_region *reader = open_region();
    struct stats_region *second = create(&second_fd);
    atomic_store(&second->header.sessions, 2);
    assert_int_equal(snapshot_of(reader)->sessions, 1);
    stats_close(reader);
    reader = open_region();
    assert_int_equal(snapshot_of(reader)->sessions, 2);
    stats_close(reader);
    stats_close(first);
    stats_close(second);
}

static void assert_not_created(const char *where, gid_t group, int code, const char *word) {
    struct stats_region *region = NULL;
    struct error error = {0};
    int fd = -1;
    assert_int_equal(stats_create(where, 0640, group, &region, &fd, &error), code);
    assert_int_equal(fd, -1);
    assert_null(region);
    if (!strstr(error.text, word))
        fail_msg("\"%s\" is not in \"%s\"", word, error.text);
}

static void test_what_cannot_be_created(void **state) {
    (void)state;
    char text[5000];
    snprintf(text, sizeof text, "%s/none/x.stats", folder);
    assert_not_created(text, (gid_t)-1, -ENOENT, "cannot make");
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    assert_not_created(text, (gid_t)-1, -ENAMETOOLONG, "too long");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_not_created(path, (gid_t)-1, -EISDIR, "in place");
    assert_int_equal(rmdir(path), 0);
}

static void test_a_group_that_may_not_be_given_is_said(void **state) {
    (void)state;
    if (geteuid() != 0) {
        print_message("skip: to become another user takes root\n");
        skip();
    }
    assert_int_equal(chmod(folder, 0777), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct stats_region *region;
        struct error error = {0};
        int fd;
        if (setgid(65534) < 0 || setuid(65534) < 0)
            _exit(2);
        int err = stats_create(path, 0640, 0, &region, &fd, &error);
        if (err != -EPERM || !strstr(error.text, "group") || access(path, F_OK) == 0)
            _exit(3);
        _exit(stats_create(path, 0640, (gid_t)-1, &region, &fd, &error) != 0); // its own can be given
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_who_may_not_read_it_is_told_why(void **state) {
    (void)state;
    if (geteuid() != 0) {
        print_message("skip: to become another user takes root\n");
        skip();
    }
    AUTO_CLOSE int fd = -1;
    stats_close(create(&fd));
    assert_int_equal(chmod(folder, 0755), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct stats_region *region;
        struct error error = {0};
        if (setgid(65534) < 0 || setuid(65534) < 0)
            _exit(2);
        int err = stats_open(path, &region, &error);
        _exit(err != -EACCES || !strstr(error.text, "socket_group"));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

// ---- Opening what is something else -----------------------------------------------------------------------

static void assert_not_opened(int code, const char *word) {
    const struct stats_region *region = NULL;
    struct error error = {0};
    assert_int_equal(stats_open(path, &region, &error), code);
    assert_null(region);
    assert_null(strchr(error.text, '\n'));
    if (!strstr(error.text, word) || !strstr(error.text, path))
        fail_msg("\"%s\" is not in \"%s\"", word, error.text);
}

static void lie(int fd, size_t offset, uint64_t value, size_t bytes, int code, const char *word) {
    uint64_t honest = 0;
    assert_int_equal(pread(fd, &honest, bytes, (off_t)offset), bytes);
    assert_int_equal(pwrite(fd, &value, bytes, (off_t)offset), bytes);
    assert_not_opened(code, word);
    assert_int_equal(pwrite(fd, &honest, bytes, (off_t)offset), bytes);
}

static void test_no_lie_is_taken(void **state) {
    (void)state;
    AUTO_CLOSE int fd = -1;
    stats_close(create(&fd));
    lie(fd, offsetof(struct stats_header, magic), 0, 8, -EAGAIN, "not ready");
    lie(fd, offsetof(struct stats_header, magic), 1, 8, -EPROTO, "not a statistics file");
    lie(fd, offsetof(struct stats_header, version), STATS_VERSION + 1, 4, -EPROTO, "version 10");
    lie(fd, offsetof(struct stats_header, header_bytes), 1, 4, -EPROTO, "another build");
    lie(fd, offsetof(struct stats_header, total_bytes), 1, 8, -EPROTO, "another build");
    lie(fd, offsetof(struct stats_header, max_feeds), 1, 4, -EPROTO, "another build");
    lie(fd, offsetof(struct stats_header, max_loaders), 1, 4, -EPROTO, "another build");
    lie(fd, offsetof(struct stats_header, max_gpus), 1, 4, -EPROTO, "another build");
    stats_close(open_region());
    uint64_t before = mapped_bytes();
    lie(fd, offsetof(struct stats_header, magic), 1, 8, -EPROTO, "not a statistics file");
    assert_int_equal(mapped_bytes(), before);
    assert_int_equal(ftruncate(fd, RING_PAGE), 0);
    assert_not_opened(-EPROTO, "4096 bytes instead of");
    assert_int_equal(ftruncate(fd, STATS_FILE_BYTES + 1), 0);
    assert_not_opened(-EPROTO, "bytes instead of");
    assert_int_equal(ftruncate(fd, RING_PAGE - 1), 0);
    assert_not_opened(-EPROTO, "not a statistics file");
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_not_opened(-EPROTO, "0 bytes");
    assert_int_equal(pwrite(fd, "just some text", 14, 2 * RING_PAGE), 14);
    assert_not_opened(-EAGAIN, "not ready"); // begins with zeros
    assert_int_equal(pwrite(fd, "just some text", 14, 0), 14);
    assert_not_opened(-EPROTO, "not a statistics file");
}

static void test_what_is_no_file(void **state) {
    (void)state;
    assert_not_opened(-ENOENT, "cannot open");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_not_opened(-EPROTO, "not a regular file");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); // must not wait for a writer
    assert_not_opened(-EPROTO, "not a regular file");
}

// ---- Snapshots --------------------------------------------------------------------------------------------

static void test_sums(void **state) {
    (void)state;
    AUTO_CLOSE int fd = -1;
    struct stats_region *region = create(&fd);
    name_feed(&region->feeds[0], 7, "first");
    name_feed(&region->feeds[5], 9, "second");
    for (uint32_t i = 0; i < 3; i++) {
        struct stats_loader *mapped = NULL;
        assert_int_equal(stats_map_loader(fd, 200 * i, &mapped, NULL), 0);
        give_record(region, 200 * i, i == 1 ? 9 : 7);
        for (int counter = 0; counter < LOADER_COUNTERS; counter++)
            stats_add(&mapped->counters[counter], (uint64_t)counter + 10 * i);
        for (int kind = 0; kind < LOADER_LATENCIES; kind++)
            latency_add(&mapped->latencies[kind], 1000000, (uint64_t)kind + 10 * i);
        munmap(mapped, sizeof *mapped);
    }
    stats_add(&region->loaders[300].counters[0], 1000000); // belongs to nobody
    stats_add(&region->feeds[0].retired[LOADER_bytes], 1000);
    latency_add(&region->feeds[0].retired_latencies[LOADER_LATENCY_fill], 1000000, 500);
    latency_add(&region->feeds[5].latencies[FEED_LATENCY_lease], 7, 70);
    stats_add(&region->feeds[0].counters[FEED_batches], 5);
    stats_add(&region->feeds[5].counters[FEED_batches], 6);
    atomic_store(&region->feeds[5].slots_ready, 11);
    atomic_store(&region->feeds[5].loaders, 12);
    struct stats_snapshot *snapshot = snapshot_of(region);
    assert_int_equal(snapshot->feed_count, 2);
    assert_string_equal(snapshot->feeds[0].name, "first");
    assert_string_equal(snapshot->feeds[1].dataset, "data of second");
    assert_int_equal(snapshot->feeds[1].id, 9);
    assert_int_equal(snapshot->feeds[1].batch_size, 109);
    assert_int_equal(snapshot->feeds[1].world_size, 209);
    assert_int_equal(snapshot->feeds[1].slot_count, 309);
    assert_int_equal(snapshot->feeds[1].ring_bytes, 409);
    assert_int_equal(snapshot->feeds[1].started_ns, 509);
    for (int counter = 0; counter < LOADER_COUNTERS; counter++) {
        uint64_t more = counter == LOADER_bytes ? 1000 : 0;
        assert_int_equal(snapshot->feeds[0].loader[counter], 2 * counter + 20 + more);
        assert_int_equal(snapshot->feeds[1].loader[counter], counter + 10);
    }
    for (int kind = 0; kind < LOADER_LATENCIES; kind++) {
        const uint64_t count = 2 * (uint64_t)kind + (kind == LOADER_LATENCY_fill ? 520 : 20);
        assert_int_equal(snapshot->feeds[0].loader_latency[kind].buckets[latency_bucket(1000000)], count);
        assert_int_equal(snapshot->feeds[0].loader_latency[kind].sum_ns, 1000000 * count);
        assert_int_equal(snapshot->feeds[1].loader_latency[kind].sum_ns, 1000000 * (10 + (uint64_t)kind));
    }
    assert_int_equal(snapshot->feeds[0].feed_latency[FEED_LATENCY_lease].buckets[0], 0);
    assert_int_equal(snapshot->feeds[1].feed_latency[FEED_LATENCY_lease].buckets[0], 70);
    assert_int_equal(snapshot->feeds[0].feed[FEED_batches], 5);
    assert_int_equal(snapshot->feeds[1].feed[FEED_batches], 6);
    assert_int_equal(snapshot->feeds[1].slots_ready, 11);
    assert_int_equal(snapshot->feeds[1].loaders, 12);
    name_feed(&region->feeds[0], 0, "gone");
    assert_int_equal(snapshot_of(region)->feed_count, 1);
    stats_close(region);
}

static void test_a_loader_maps_its_record_and_no_other(void **state) {
    (void)state;
    AUTO_CLOSE int fd = -1;
    struct stats_region *region = create(&fd);
    struct stats_loader *record = NULL;
    struct error error = {0};
    assert_int_equal(stats_map_loader(fd, STATS_MAX_LOADERS - 1, &record, &error), 0);
    stats_add(&record->counters[LOADER_samples], 3);
    assert_int_equal(atomic_load(&region->loaders[STATS_MAX_LOADERS - 1].counters[LOADER_samples]), 3);
    munmap(record, sizeof *record);
    assert_int_equal(stats_map_loader(fd, STATS_MAX_LOADERS, &record, &error), -EINVAL);
    assert_int_equal(stats_map_loader(-1, 0, &record, &error), -EBADF);
    stats_close(region);
}

static void test_every_counter_has_its_text(void **state) {
    (void)state;
    for (int i = 0; i < LOADER_COUNTERS; i++)
        assert_true(loader_counter_texts[i].name && loader_counter_texts[i].unit &&
                    loader_counter_texts[i].text);
    for (int i = 0; i < FEED_COUNTERS; i++)
        assert_true(feed_counter_texts[i].name && feed_counter_texts[i].unit && feed_counter_texts[i].text);
    for (int i = 0; i < GPU_COUNTERS; i++)
        assert_true(gpu_counter_texts[i].name && gpu_counter_texts[i].unit && gpu_counter_texts[i].text);
    for (int i = 0; i < LOADER_LATENCIES; i++)
        assert_true(loader_latency_texts[i].name && loader_latency_texts[i].text);
    for (int i = 0; i < FEED_LATENCIES; i++)
        assert_true(feed_latency_texts[i].name && feed_latency_texts[i].text);
    for (int i = 0; i < GPU_LATENCIES; i++)
        assert_true(gpu_latency_texts[i].name && gpu_latency_texts[i].text);
    assert_string_equal(gpu_counter_texts[GPU_copied_bytes].name, "copied_bytes");
    assert_string_equal(loader_counter_texts[LOADER_storage_bytes].name, "storage_bytes");
    assert_string_equal(feed_counter_texts[FEED_consumer_wait_ns].unit, "ns");
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_path_follows_the_socket),
        CASE(test_what_is_created_can_be_opened),
        CASE(test_the_mode_is_not_the_masks),
        CASE(test_an_old_file_is_replaced_under_its_readers),
        CASE(test_what_cannot_be_created),
        CASE(test_a_group_that_may_not_be_given_is_said),
        CASE(test_who_may_not_read_it_is_told_why),
        CASE(test_no_lie_is_taken),
        CASE(test_what_is_no_file),
        CASE(test_sums),
        CASE(test_a_loader_maps_its_record_and_no_other),
        cmocka_unit_test(test_every_counter_has_its_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
