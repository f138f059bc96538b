// Readers' side of the statistics region: no lock, no question to the daemon.
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "shm/stats.h"

#define READ_ATTEMPTS 50
#define READ_PAUSE_NS 200000

const struct counter_text loader_counter_texts[LOADER_COUNTERS] = {
#define LOADER_COUNTER(name, unit, text) {#name, unit, text},
#define FEED_COUNTER(name, unit, text)
#include "shm/counters.def"
};

const struct counter_text feed_counter_texts[FEED_COUNTERS] = {
#define LOADER_COUNTER(name, unit, text)
#define FEED_COUNTER(name, unit, text) {#name, unit, text},
#include "shm/counters.def"
};

// The magic number comes first: what another version has agreed on beside it is not known.
static int check_header(const struct stats_header *header, uint64_t file_bytes, const char *path,
                        struct error *error) {
    // Pairs with the release in stats_create.
    uint64_t magic = atomic_load_explicit(&header->magic, memory_order_acquire);
    if (magic == 0)
        return error_set(error, -EAGAIN, "the statistics file %s is not ready yet", path);
    if (magic != STATS_MAGIC)
        return error_set(error, -EPROTO, "%s is no statistics file of feedd", path);
    if (header->version != STATS_VERSION)
        return error_set(error, -EPROTO, "%s has version %u of the statistics, this program knows %u", path,
                         header->version, STATS_VERSION);
    if (header->header_bytes != sizeof *header || header->total_bytes != sizeof(struct stats_region) ||
        header->max_feeds != STATS_MAX_FEEDS || header->max_loaders != STATS_MAX_LOADERS)
        return error_set(error, -EPROTO, "%s is the statistics file of another build of feedd", path);
    if (file_bytes != sizeof(struct stats_region))
        return error_set(error, -EPROTO, "the statistics file %s has %llu bytes, %zu are wanted", path,
                         (unsigned long long)file_bytes, sizeof(struct stats_region));
    return 0;
}

int stats_open(const char *path, const struct stats_region **region, struct error *error) {
    // Without waiting: what is no file, such as a named pipe, is refused below.
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 && errno == EACCES)
        return error_set(
            error, -EACCES,
            "you may not read %s: whoever may connect to the daemon's socket may, by socket_group in its"
            " configuration",
            path);
    if (fd < 0)
        return error_set(error, -errno, "cannot open the statistics file %s: %m", path);
    if (fstat(fd, &status) < 0)
        return error_set(error, -errno, "cannot look at the statistics file %s: %m", path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EPROTO, "%s is no statistics file of feedd: it is no regular file", path);
    if ((uint64_t)status.st_size < sizeof(struct stats_header))
        return error_set(error, -EPROTO, "%s is no statistics file of feedd: it has %lld bytes", path,
                         (long long)status.st_size);
    // Pages behind the end of a short file are not touched before its size has been found right.
    const struct stats_region *memory = mmap(NULL, sizeof *memory, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map the statistics file %s: %m", path);
    int failed = check_header(&memory->header, (uint64_t)status.st_size, path, error);
    if (failed) {
        stats_close(memory);
        return failed;
    }
    *region = memory;
    return 0;
}

void stats_close(const struct stats_region *region) {
    if (region)
        munmap((void *)region, sizeof *region);
}

static uint64_t read_counter(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void copy_identity(const struct stats_feed *feed, struct stats_feed_snapshot *snapshot) {
    snapshot->id = feed->id;
    memcpy(snapshot->name, feed->name, sizeof snapshot->name);
    memcpy(snapshot->dataset, feed->dataset, sizeof snapshot->dataset);
    snapshot->started_ns = feed->started_ns;
    snapshot->batch_size = feed->batch_size;
    snapshot->world_size = feed->world_size;
    snapshot->slot_count = feed->slot_count;
    snapshot->ring_bytes = feed->ring_bytes;
    for (int i = 0; i < LOADER_COUNTERS; i++)
        snapshot->loader[i] = read_counter(&feed->retired[i]);
    snapshot->name[STATS_NAME - 1] = 0;
    snapshot->dataset[STATS_NAME - 1] = 0;
}

static void add_loaders(const struct stats_region *region, struct stats_feed_snapshot *snapshot) {
    for (uint32_t i = 0; i < STATS_MAX_LOADERS; i++) {
        const struct stats_loader *loader = &region->loaders[i];
        if (atomic_load_explicit(&loader->feed, memory_order_acquire) != snapshot->id)
            continue;
        for (int counter = 0; counter < LOADER_COUNTERS; counter++)
            snapshot->loader[counter] += read_counter(&loader->counters[counter]);
    }
}

// False when the record is unused, or a writer that died or keeps rewriting never left it whole.
static bool read_feed(const struct stats_region *region, const struct stats_feed *feed,
                      struct stats_feed_snapshot *snapshot) {
    const struct timespec pause = {.tv_nsec = READ_PAUSE_NS};
    for (int attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        // A writer that has lost the processor in the middle of a rewrite gets it back meanwhile.
        if (attempt)
            nanosleep(&pause, NULL);
        uint32_t before = atomic_load_explicit(&feed->version, memory_order_acquire);
        if (before & 1)
            continue;
        copy_identity(feed, snapshot);
        // Inside the bracket: a dead loader's counters move from its record to `retired` in one rewrite.
        add_loaders(region, snapshot);
        // Pairs with the release fence in stats_feed_write_begin.
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&feed->version, memory_order_relaxed) == before)
            return snapshot->id != 0;
    }
    return false;
}

void stats_snapshot(const struct stats_region *region, struct stats_snapshot *snapshot) {
    const struct stats_header *header = &region->header;
    snapshot->taken_ns = monotonic_ns();
    snapshot->pid = header->pid;
    snapshot->started_ns = header->started_ns;
    snapshot->heartbeat_ns = read_counter(&header->heartbeat_ns);
    snapshot->stopped = read_counter(&header->stopped) != 0;
    snapshot->sessions = read_counter(&header->sessions);
    snapshot->ring_bytes = read_counter(&header->ring_bytes);
    snapshot->ring_memory = header->ring_memory;
    snapshot->feed_count = 0;
    for (uint32_t i = 0; i < STATS_MAX_FEEDS; i++) {
        struct stats_feed_snapshot *feed = &snapshot->feeds[snapshot->feed_count];
        const struct stats_feed *record = &region->feeds[i];
        if (!read_feed(region, record, feed))
            continue;
        feed->slots_ready = read_counter(&record->slots_ready);
        feed->slots_filling = read_counter(&record->slots_filling);
        feed->consumers = read_counter(&record->consumers);
        feed->loaders = read_counter(&record->loaders);
        for (int counter = 0; counter < FEED_COUNTERS; counter++)
            feed->feed[counter] = read_counter(&record->counters[counter]);
        snapshot->feed_count++;
    }
}
