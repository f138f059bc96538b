// The writers' side of the statistics region.
#include "shm/stats.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/time.h"
#include "shm/trace.h"

int stats_path(const char *socket, char *path, size_t bytes) {
    int used = snprintf(path, bytes, "%s.stats", socket);
    return used >= 0 && (size_t)used < bytes ? 0 : -ENAMETOOLONG;
}

// The file is made under another name and renamed when it is complete, so a reader never sees half of it. What a
// killed daemon leaves behind, the next one overwrites.
int stats_create(const char *path, uint32_t mode, gid_t group, struct stats_region **region, int *fd,
                 struct error *error) {
    char fresh[4096];
    if (snprintf(fresh, sizeof fresh, "%s.new", path) >= (int)sizeof fresh)
        return error_set(error, -ENAMETOOLONG, "the path of the statistics file is too long: %s", path);
    unlink(fresh);
    AUTO_CLOSE int file = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0)
        return error_set(error, -errno, "cannot make the statistics file %s: %m", fresh);
    int err = fchown(file, (uid_t)-1, group) < 0 || fchmod(file, mode) < 0 ? errno : 0;
    if (err) {
        unlink(fresh);
        return error_set(error, -err, "cannot give the statistics file %s its group and mode: %s", fresh,
                         strerror(err));
    }
    // The rings of the timeline are allocated when it is turned on, which fails where files may not be as large.
    do
        err = posix_fallocate(file, 0, STATS_LEAST_BYTES);
    while (err == EINTR);
    if (!err && ftruncate(file, STATS_FILE_BYTES) < 0 && errno != EFBIG)
        err = errno;
    if (err) {
        unlink(fresh);
        return error_set(error, -err, "cannot allocate the statistics file %s: %s", fresh, strerror(err));
    }
    struct stats_region *memory =
        mmap(NULL, sizeof(struct stats_region), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        err = errno;
        unlink(fresh);
        return error_set(error, -err, "cannot map the statistics file %s: %s", fresh, strerror(err));
    }
    memory->header.version = STATS_VERSION;
    memory->header.header_bytes = sizeof(struct stats_header);
    memory->header.total_bytes = sizeof(struct stats_region);
    memory->header.max_feeds = STATS_MAX_FEEDS;
    memory->header.max_loaders = STATS_MAX_LOADERS;
    memory->header.max_gpus = STATS_MAX_GPUS;
    memory->header.pid = (uint64_t)getpid();
    memory->header.started_ns = monotonic_ns();
    atomic_store_explicit(&memory->header.heartbeat_ns, memory->header.started_ns, memory_order_relaxed);
    // Pairs with the acquire in stats_open.
    atomic_store_explicit(&memory->header.magic, STATS_MAGIC, memory_order_release);
    if (rename(fresh, path) < 0) {
        err = errno;
        munmap(memory, sizeof(struct stats_region));
        unlink(fresh);
        return error_set(error, -err, "cannot put the statistics file in place at %s: %s", path,
                         strerror(err));
    }
    *region = memory;
    *fd = file;
    file = -1;
    return 0;
}

// A record of `bytes` bytes at `offset`, which is whole pages.
static int map_record(int fd, size_t offset, size_t bytes, void **memory, struct error *error) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (pages == MAP_FAILED)
        return error_set(error, -errno, "cannot map a statistics record: %m");
    *memory = pages;
    return 0;
}

static int refuse_record(uint32_t record, struct error *error) {
    return error_set(error, -EINVAL, "statistics record %u does not exist", record);
}

int stats_map_loader(int fd, uint32_t record, struct stats_loader **loader, struct error *error) {
    void *memory = NULL;
    if (record >= STATS_MAX_LOADERS)
        return refuse_record(record, error);
    int err = map_record(fd, offsetof(struct stats_region, loaders) + record * sizeof **loader,
                         sizeof **loader, &memory, error);
    if (err == 0)
        *loader = memory;
    return err;
}

int stats_map_gpu(int fd, uint32_t record, struct stats_gpu **gpu, struct error *error) {
    void *memory = NULL;
    if (record >= STATS_MAX_GPUS)
        return refuse_record(record, error);
    int err = map_record(fd, offsetof(struct stats_region, gpus) + record * sizeof **gpu, sizeof **gpu,
                         &memory, error);
    if (err == 0)
        *gpu = memory;
    return err;
}

static void write_begin(_Atomic uint32_t *version) {
    uint32_t number = atomic_load_explicit(version, memory_order_relaxed);
    atomic_store_explicit(version, number + 1, memory_order_relaxed);
    // Readers that see any of the rewrite see the odd version; pairs with the acquire fence in read_whole.
    atomic_thread_fence(memory_order_release);
}

static void write_end(_Atomic uint32_t *version) {
    uint32_t number = atomic_load_explicit(version, memory_order_relaxed);
    atomic_store_explicit(version, number + 1, memory_order_release);
}

void stats_feed_write_begin(struct stats_feed *feed) {
    write_begin(&feed->version);
}

void stats_feed_write_end(struct stats_feed *feed) {
    write_end(&feed->version);
}

void stats_gpu_write_begin(struct stats_gpu *gpu) {
    write_begin(&gpu->version);
}

void stats_gpu_write_end(struct stats_gpu *gpu) {
    write_end(&gpu->version);
}

void *stats_unused_record(void *records, size_t count, size_t bytes, size_t word_offset) {
    for (size_t i = 0; i < count; i++) {
        uint8_t *record = (uint8_t *)records + i * bytes;
        if (atomic_load_explicit((_Atomic uint64_t *)(void *)(record + word_offset), memory_order_relaxed) ==
            0)
            return record;
    }
    return NULL;
}

static void store_reason(struct stats_bad_sample *bad, const char *reason) {
    uint64_t words[STATS_REASON_BYTES / 8] = {0};
    if (snprintf((char *)words, sizeof words, "%s", reason ? reason : "") >= (int)sizeof words)
        memcpy((char *)words + sizeof words - sizeof "...", "...", sizeof "...");
    for (size_t i = 0; i < COUNT_OF(words); i++)
        atomic_store_explicit(&bad->reason[i], words[i], memory_order_relaxed);
}

void stats_note_bad(struct stats_loader *loader, const struct bad_report *report) {
    uint64_t count = atomic_load_explicit(&loader->bad_count, memory_order_relaxed);
    struct stats_bad_sample *bad = &loader->bad[count % STATS_BAD_SAMPLES];
    atomic_store_explicit(&bad->sample, report->sample, memory_order_relaxed);
    atomic_store_explicit(&bad->offset, report->offset, memory_order_relaxed);
    atomic_store_explicit(&bad->file, report->file, memory_order_relaxed);
    atomic_store_explicit(&bad->code, report->code, memory_order_relaxed);
    atomic_store_explicit(&bad->fate, report->fate, memory_order_relaxed);
    atomic_store_explicit(&bad->refused, report->refused, memory_order_relaxed);
    store_reason(bad, report->reason);
    stats_add(&loader->bad_totals[report->fate], 1);
    // Pairs with the acquire in bad_samples_hear.
    atomic_store_explicit(&loader->bad_count, count + 1, memory_order_release);
}

static bool is_condemned(const struct stats_loader *loader, uint64_t sample) {
    // Pairs with the release in stats_condemn.
    uint64_t count = atomic_load_explicit(&loader->condemned_count, memory_order_acquire);
    for (uint64_t i = 0; i < count && i < STATS_CONDEMNED; i++)
        if (atomic_load_explicit(&loader->condemned[i], memory_order_relaxed) == sample)
            return true;
    return false;
}

bool stats_stage_begin(struct stats_loader *loader, uint64_t sample) {
    if (is_condemned(loader, sample))
        return false;
    atomic_store_explicit(&loader->staged_sample, sample + 1, memory_order_relaxed);
    // The process may end at any instruction of the work, and what it stored before that is seen by who reaps it; the
    // compiler must not move the work before the store.
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

void stats_stage_end(struct stats_loader *loader) {
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&loader->staged_sample, 0, memory_order_relaxed);
}

void stats_condemn(struct stats_loader *loader, uint64_t sample) {
    uint64_t count = atomic_load_explicit(&loader->condemned_count, memory_order_relaxed);
    if (count >= STATS_CONDEMNED)
        return; // a loader may write here
    atomic_store_explicit(&loader->condemned[count], sample, memory_order_relaxed);
    // Pairs with the acquire in is_condemned.
    atomic_store_explicit(&loader->condemned_count, count + 1, memory_order_release);
}

const char *bad_fate_name(uint32_t fate) {
    static const char *const names[] = {
        [BAD_FATAL] = "fatal", [BAD_SKIPPED] = "skipped", [BAD_REPLACED] = "replaced"};
    return fate < COUNT_OF(names) ? names[fate] : "?";
}
