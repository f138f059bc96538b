// The statistics region as feedctl stats and feedctl metrics see it: whatever is written there, they do not crash.
//
// Input: a byte for what is printed, a byte for the length of the file, how many places of a valid region are changed
// before the first look, and those places; then the same for the second look. Places that are left change while a
// look waits for a writer to be done.
#include "client/ctl/metrics.h"
#include "client/ctl/report.h"
#include "client/ctl/report_latency.h"
#include "shm/stats_read.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/wrapped.h"

static struct stats_region *shown, *whole; // the file, mapped; and what it contains at first
static struct fuzz_input input;

// The header, the first two feeds, loaders and GPUs.
static const uint16_t pages[] = {0,
                                 1,
                                 2,
                                 1 + STATS_MAX_FEEDS,
                                 2 + STATS_MAX_FEEDS,
                                 1 + STATS_MAX_FEEDS + STATS_MAX_LOADERS,
                                 2 + STATS_MAX_FEEDS + STATS_MAX_LOADERS};

static void change(uint32_t count) {
    fuzz_patch(&input, (uint8_t *)shown, sizeof *shown, pages, COUNT_OF(pages), count);
}

uint64_t __wrap_monotonic_ns(void) {
    return 1000 * NS_PER_S;
}

// The pause of a reader that has found a record half-written.
int __wrap_nanosleep(const struct timespec *span, struct timespec *left) {
    (void)span;
    (void)left;
    change(1);
    return 0;
}

static void make_whole(void) {
    whole->header.version = STATS_VERSION;
    whole->header.header_bytes = sizeof whole->header;
    whole->header.total_bytes = sizeof *whole;
    whole->header.max_feeds = STATS_MAX_FEEDS;
    whole->header.max_loaders = STATS_MAX_LOADERS;
    whole->header.max_gpus = STATS_MAX_GPUS;
    whole->header.pid = 1;
    whole->header.magic = STATS_MAGIC;
    for (uint32_t i = 0; i < 2; i++) {
        whole->feeds[i].id = 7 + i;
        whole->owners.feed[i] = 7 + i;
        whole->gpus[i].used = 1;
        snprintf(whole->gpus[i].uuid, STATS_NAME, "GPU-%u-0", i);
        snprintf(whole->feeds[i].name, STATS_NAME, "feed%u", i);
    }
}

static int open_file(void) {
    int fd = fuzz_memory_file();
    FUZZ_CHECK(ftruncate(fd, sizeof *whole) == 0);
    shown = mmap(NULL, sizeof *shown, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    whole = aligned_alloc(RING_PAGE, sizeof *whole);
    FUZZ_CHECK(shown != MAP_FAILED && whole);
    memset(whole, 0, sizeof *whole);
    make_whole();
    return fd;
}

// Only what the pages differ in is written, so that a run costs little.
static void restore(void) {
    for (size_t at = 0; at < sizeof *whole; at += RING_PAGE)
        if (memcmp((uint8_t *)shown + at, (uint8_t *)whole + at, RING_PAGE) != 0)
            memcpy((uint8_t *)shown + at, (uint8_t *)whole + at, RING_PAGE);
}

static bool look(const char *path, struct stats_snapshot *snapshot) {
    const struct stats_region *region;
    struct error error = {0};
    int err = stats_open(path, &region, &error);
    FUZZ_CHECK(!err || *error.text);
    if (err)
        return false;
    stats_snapshot(region, snapshot);
    stats_close(region);
    FUZZ_CHECK(snapshot->feed_count <= STATS_MAX_FEEDS && snapshot->gpu_count <= STATS_MAX_GPUS);
    for (uint32_t i = 0; i < snapshot->feed_count; i++)
        FUZZ_CHECK(memchr(snapshot->feeds[i].name, 0, STATS_NAME) &&
                   memchr(snapshot->feeds[i].dataset, 0, STATS_NAME));
    for (uint32_t i = 0; i < snapshot->gpu_count; i++)
        FUZZ_CHECK(memchr(snapshot->gpus[i].uuid, 0, STATS_NAME) &&
                   memchr(snapshot->gpus[i].name, 0, STATS_NAME));
    return true;
}

static void print(uint8_t how, const struct stats_snapshot *before, const struct stats_snapshot *now) {
    static FILE *nowhere;
    struct report_options options = {
        .feed = how & 1 ? "feed1" : NULL, .width = how >> 1 & 0x7f, .title = true, .gpu_title = how & 2};
    enum daemon_state state = rates_daemon_state(now, how & 4);
    if (!nowhere)
        nowhere = fopen("/dev/null", "we");
    report_daemon(now, state, nowhere);
    report_feeds(&options, before, now, nowhere);
    report_gpus(&options, before, now, nowhere);
    report_verdicts(&options, before, now, nowhere);
    report_latencies(&options, before, now, nowhere);
    metrics_write(how & 1 ? METRICS_OPEN : METRICS_PROMETHEUS, now, state, nowhere);
    json_t *json = report_json(&options, before, now, state);
    FUZZ_CHECK(json && json_dumpf(json, nowhere, JSON_COMPACT) == 0);
    json_decref(json);
}

// A file of another length is refused before anything past its end is touched.
static void look_at_part(size_t bytes) {
    static struct stats_snapshot snapshot;
    static int fd = -1;
    char path[32];
    if (fd < 0)
        fd = fuzz_memory_file();
    fuzz_write(fd, shown, bytes);
    FUZZ_CHECK(!look(fuzz_path(fd, path), &snapshot) || bytes == sizeof *shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct stats_snapshot before, now;
    static int fd = -1;
    char path[32];
    if (fd < 0)
        fd = open_file();
    restore();
    input = (struct fuzz_input){data, size};
    uint8_t how = fuzz_byte(&input), length = fuzz_byte(&input);
    change(fuzz_byte(&input));
    if (length)
        look_at_part(length * (size_t)97);
    bool first = look(fuzz_path(fd, path), &before);
    change(fuzz_byte(&input));
    if (look(path, &now))
        print(how, first ? &before : NULL, &now);
    return 0;
}
