// The readers' side of the statistics region: no lock, and no question to the daemon.
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/sizes.h"
#include "base/time.h"
#include "shm/stats_read.h"
#include "shm/trace.h"

#define READ_ATTEMPTS 50
#define READ_PAUSE_NS 200000

const struct counter_text loader_counter_texts[LOADER_COUNTERS] = {
#define LOADER_COUNTER(name, unit, text) {#name, unit, text},
#define FEED_COUNTER(name, unit, text)
#define GPU_COUNTER(name, unit, text)
#include "shm/counters.def"
};

const struct counter_text feed_counter_texts[FEED_COUNTERS] = {
#define LOADER_COUNTER(name, unit, text)
#define FEED_COUNTER(name, unit, text) {#name, unit, text},
#define GPU_COUNTER(name, unit, text)
#include "shm/counters.def"
};

const struct counter_text gpu_counter_texts[GPU_COUNTERS] = {
#define LOADER_COUNTER(name, unit, text)
#define FEED_COUNTER(name, unit, text)
#define GPU_COUNTER(name, unit, text) {#name, unit, text},
#include "shm/counters.def"
};

const struct latency_text loader_latency_texts[LOADER_LATENCIES] = {
#define LOADER_LATENCY(name, text) {#name, text},
#define FEED_LATENCY(name, text)
#define GPU_LATENCY(name, text)
#include "shm/latencies.def"
};

const struct latency_text feed_latency_texts[FEED_LATENCIES] = {
#define LOADER_LATENCY(name, text)
#define FEED_LATENCY(name, text) {#name, text},
#define GPU_LATENCY(name, text)
#include "shm/latencies.def"
};

const struct latency_text gpu_latency_texts[GPU_LATENCIES] = {
#define LOADER_LATENCY(name, text)
#define FEED_LATENCY(name, text)
#define GPU_LATENCY(name, text) {#name, text},
#include "shm/latencies.def"
};

const char *stats_gpu_state_name(uint32_t state) {
    static const char *const names[GPU_STATES] = {
        [GPU_STARTING] = "starting",
        [GPU_RUNNING] = "running",
        [GPU_BACKING_OFF] = "backing off",
        [GPU_STOPPING] = "stopping",
    };
    return state < GPU_STATES ? names[state] : "?";
}

char *stats_copy_text(char copy[STATS_NAME], const char text[STATS_NAME]) {
    for (size_t i = 0; i < STATS_NAME; i++) {
        char read = __atomic_load_n(&text[i], __ATOMIC_RELAXED);
        copy[i] = read == 0 || (read >= 0x20 && read < 0x7f) ? read : '?';
    }
    copy[STATS_NAME - 1] = 0;
    return copy;
}

// The magic number comes first: other versions may have nothing else in common with this one.
static int check_header(const struct stats_header *header, uint64_t file_bytes, const char *path,
                        struct error *error) {
    // Pairs with the release in stats_create.
    uint64_t magic = atomic_load_explicit(&header->magic, memory_order_acquire);
    if (magic == 0)
        return error_set(error, -EAGAIN, "the statistics file %s is not ready yet", path);
    if (magic != STATS_MAGIC)
        return error_set(error, -EPROTO, "%s is not a statistics file of feedd", path);
    if (header->version != STATS_VERSION)
        return error_set(error, -EPROTO, "%s has version %u of the statistics; this program knows %u", path,
                         header->version, STATS_VERSION);
    if (header->header_bytes != sizeof *header || header->total_bytes != sizeof(struct stats_region) ||
        header->max_feeds != STATS_MAX_FEEDS || header->max_loaders != STATS_MAX_LOADERS ||
        header->max_gpus != STATS_MAX_GPUS)
        return error_set(error, -EPROTO, "%s is the statistics file of another build of feedd", path);
    if (file_bytes < STATS_FILE_LEAST || file_bytes > STATS_FILE_BYTES)
        return error_set(error, -EPROTO, "the statistics file %s has %llu bytes instead of %zu", path,
                         (unsigned long long)file_bytes, STATS_FILE_BYTES);
    return 0;
}

int stats_open(const char *path, const struct stats_region **region, struct error *error) {
    // Without waiting: what is not a file, such as a named pipe, is refused below.
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 && errno == EACCES)
        return error_set(
            error, -EACCES,
            "you may not read %s: only users that may connect to the daemon's socket can (socket_group in its"
            " configuration)",
            path);
    if (fd < 0)
        return error_set(error, -errno, "cannot open the statistics file %s: %m", path);
    if (fstat(fd, &status) < 0)
        return error_set(error, -errno, "cannot look at the statistics file %s: %m", path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EPROTO, "%s is not a statistics file of feedd: it is not a regular file",
                         path);
    if ((uint64_t)status.st_size < sizeof(struct stats_header))
        return error_set(error, -EPROTO, "%s is not a statistics file of feedd: it has %lld bytes", path,
                         (long long)status.st_size);
    // The file may be too short: nothing after the header is touched before its size is checked.
    const struct stats_region *memory = mmap(NULL, sizeof *memory, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map the statistics file %s: %m", path);
    int err = check_header(&memory->header, (uint64_t)status.st_size, path, error);
    if (err) {
        stats_close(memory);
        return err;
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

static void add_latency(const struct latency *latency, struct latency_snapshot *snapshot) {
    snapshot->sum_ns += read_counter(&latency->sum_ns);
    for (uint32_t i = 0; i < LATENCY_BUCKETS; i++)
        snapshot->buckets[i] += read_counter(&latency->buckets[i]);
}

// Attempts to copy a record that is rewritten under `version` as a seqlock:
//   while (read_begin(&look)) { copy; if (read_whole(&look)) ... }
struct look {
    const _Atomic uint32_t *version;
    uint32_t before;
    int attempts;
};

// False when all attempts are used up: the writer died in a rewrite, or does not stop rewriting.
static bool read_begin(struct look *look) {
    const struct timespec pause = {.tv_nsec = READ_PAUSE_NS};
    while (look->attempts < READ_ATTEMPTS) {
        // Gives a writer that lost the processor in the middle of a rewrite time to get it back.
        if (look->attempts++)
            nanosleep(&pause, NULL);
        look->before = atomic_load_explicit(look->version, memory_order_acquire);
        if (!(look->before & 1))
            return true;
    }
    return false;
}

static bool read_whole(const struct look *look) {
    // Pairs with the release fence in write_begin.
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(look->version, memory_order_relaxed) == look->before;
}

// ---- Feeds -------------------------------------------------------------------------------------------------

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
    memset(snapshot->loader_latency, 0, sizeof snapshot->loader_latency);
    for (int i = 0; i < LOADER_LATENCIES; i++)
        add_latency(&feed->retired_latencies[i], &snapshot->loader_latency[i]);
    snapshot->name[STATS_NAME - 1] = 0;
    snapshot->dataset[STATS_NAME - 1] = 0;
}

static void add_loaders(const struct stats_region *region, struct stats_feed_snapshot *snapshot) {
    for (uint32_t i = 0; i < STATS_MAX_LOADERS; i++) {
        const struct stats_loader *loader = &region->loaders[i];
        if (atomic_load_explicit(&region->owners.feed[i], memory_order_acquire) != snapshot->id)
            continue;
        for (int counter = 0; counter < LOADER_COUNTERS; counter++)
            snapshot->loader[counter] += read_counter(&loader->counters[counter]);
        for (int kind = 0; kind < LOADER_LATENCIES; kind++)
            add_latency(&loader->latencies[kind], &snapshot->loader_latency[kind]);
    }
}

// False when the record is unused, or could not be copied whole.
static bool read_feed(const struct stats_region *region, const struct stats_feed *feed,
                      struct stats_feed_snapshot *snapshot) {
    struct look look = {.version = &feed->version};
    while (read_begin(&look)) {
        copy_identity(feed, snapshot);
        // Inside the bracket: a dead loader's counters move from its record to `retired` in one rewrite.
        if (snapshot->id)
            add_loaders(region, snapshot);
        if (read_whole(&look))
            return snapshot->id != 0;
    }
    return false;
}

static uint32_t snapshot_feeds(const struct stats_region *region, struct stats_feed_snapshot *feeds) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < STATS_MAX_FEEDS; i++) {
        struct stats_feed_snapshot *feed = &feeds[count];
        const struct stats_feed *record = &region->feeds[i];
        if (!read_feed(region, record, feed))
            continue;
        feed->slots_ready = read_counter(&record->slots_ready);
        feed->slots_filling = read_counter(&record->slots_filling);
        feed->consumers = read_counter(&record->consumers);
        feed->loaders = read_counter(&record->loaders);
        for (int counter = 0; counter < FEED_COUNTERS; counter++)
            feed->feed[counter] = read_counter(&record->counters[counter]);
        feed->gpus = read_counter(&record->gpus);
        memset(feed->feed_latency, 0, sizeof feed->feed_latency);
        for (int kind = 0; kind < FEED_LATENCIES; kind++)
            add_latency(&record->latencies[kind], &feed->feed_latency[kind]);
        count++;
    }
    return count;
}

// ---- GPUs --------------------------------------------------------------------------------------------------

// Returns `used`.
static uint64_t copy_gpu(const struct stats_header *header, const struct stats_gpu *gpu,
                         struct stats_gpu_snapshot *snapshot) {
    stats_copy_text(snapshot->uuid, gpu->uuid);
    stats_copy_text(snapshot->name, gpu->name);
    // `used` may be just a flag; the record was not in use before the daemon's start.
    snapshot->started_ns = max_u64(gpu->used, header->started_ns);
    snapshot->pid = read_counter(&gpu->pid);
    snapshot->heartbeat_ns = read_counter(&gpu->heartbeat_ns);
    snapshot->state = atomic_load_explicit(&gpu->state, memory_order_relaxed);
    snapshot->pools = atomic_load_explicit(&gpu->pools, memory_order_relaxed);
    snapshot->pinned_bytes = read_counter(&gpu->pinned_bytes);
    snapshot->pool_bytes = read_counter(&gpu->pool_bytes);
    snapshot->bus_bytes_per_s = read_counter(&gpu->bus_bytes_per_s);
    for (int counter = 0; counter < GPU_COUNTERS; counter++)
        snapshot->counters[counter] = read_counter(&gpu->counters[counter]);
    memset(snapshot->latency, 0, sizeof snapshot->latency);
    for (int kind = 0; kind < GPU_LATENCIES; kind++)
        add_latency(&gpu->latencies[kind], &snapshot->latency[kind]);
    return gpu->used;
}

// Like read_feed. Counters are copied inside the bracket, so that they belong to the GPU that is named.
static bool read_gpu(const struct stats_header *header, const struct stats_gpu *gpu,
                     struct stats_gpu_snapshot *snapshot) {
    struct look look = {.version = &gpu->version};
    while (read_begin(&look)) {
        uint64_t used = copy_gpu(header, gpu, snapshot);
        if (read_whole(&look))
            return used != 0;
    }
    return false;
}

// ---- All ---------------------------------------------------------------------------------------------------

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
    snapshot->feed_count = snapshot_feeds(region, snapshot->feeds);
    snapshot->gpu_count = 0;
    for (uint32_t i = 0; i < STATS_MAX_GPUS; i++) {
        snapshot->gpus[snapshot->gpu_count].record = i;
        snapshot->gpu_count += read_gpu(header, &region->gpus[i], &snapshot->gpus[snapshot->gpu_count]);
    }
}
