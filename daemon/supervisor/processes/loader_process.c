#include "daemon/supervisor/processes/loader_process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/confine/confine.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/supervisor/processes/condemned.h"
#include "daemon/supervisor/processes/loader_prepared.h"
#include "shm/reader_kind.h"

// Eight failures take about 13 s, however many loaders are started at a time. Loaders that work and die all the same
// are replaced 32 times at once, then 4 times per second.
const struct respawn_policy loader_respawn_policy = {
    .failures_most = 8,
    .start_ns = 1 * NS_PER_S,
    .backoff_first_ns = 200 * NS_PER_MS,
    .backoff_most_ns = 30 * NS_PER_S,
    .at_once = 32,
    .refill_ns = 250 * NS_PER_MS,
    .retry_ns = 1 * NS_PER_S,
};

bool loader_process_has_worked(const struct loader_process *loader, bool idle) {
    const struct stats_loader *record = loader->record;
    if (idle && atomic_load_explicit(&record->reader, memory_order_relaxed) != READER_NONE)
        return true;
    return atomic_load_explicit(&record->counters[LOADER_samples], memory_order_relaxed) > 0;
}

uint64_t loader_process_silent_ns(const struct loader_process *loader, uint64_t now) {
    return process_silent_ns(&loader->process, &loader->record->heartbeat_ns, now);
}

bool loader_process_read(const struct loader_process *loader, uint64_t file_numbers, uint64_t now,
                         struct loader_read *read) {
    const struct stats_loader *record = loader->record;
    uint32_t file = atomic_load_explicit(&record->read_file, memory_order_relaxed);
    uint64_t since = atomic_load_explicit(&record->read_since_ns, memory_order_relaxed);
    if (file == 0 || file > file_numbers)
        return false;
    if (!since)
        since = atomic_load_explicit(&record->heartbeat_ns, memory_order_relaxed);
    since = max_u64(since, loader->process.started_ns);
    *read = (struct loader_read){.file = file - 1, .age_ns = now > since ? now - since : 0};
    return true;
}

bool loader_process_staged(const struct loader_process *loader, uint64_t *sample) {
    uint64_t staged = atomic_load_explicit(&loader->record->staged_sample, memory_order_relaxed);
    *sample = staged - 1;
    return staged != 0;
}

// ---- Its record --------------------------------------------------------------------------------------------

static int find_record(const struct stats_region *stats, uint32_t *record, struct error *error) {
    for (*record = 0; *record < STATS_MAX_LOADERS; ++*record)
        if (atomic_load_explicit(&stats->owners.feed[*record], memory_order_relaxed) == 0)
            return 0;
    return error_set(error, -EBUSY, "this daemon already has %u loader processes, the maximum",
                     STATS_MAX_LOADERS);
}

// Before the process exists: afterwards these words are its own.
static void prepare_record(struct stats_loader *record, const struct condemned *condemned) {
    atomic_store_explicit(&record->heartbeat_ns, monotonic_ns(), memory_order_relaxed);
    atomic_store_explicit(&record->reader, 0, memory_order_relaxed);
    atomic_store_explicit(&record->reader_reason, 0, memory_order_relaxed);
    atomic_store_explicit(&record->read_since_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&record->read_file, 0, memory_order_relaxed);
    atomic_store_explicit(&record->confined, 0, memory_order_relaxed);
    atomic_store_explicit(&record->bad_count, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < BAD_FATES; i++)
        atomic_store_explicit(&record->bad_totals[i], 0, memory_order_relaxed);
    atomic_store_explicit(&record->staged_sample, 0, memory_order_relaxed);
    atomic_store_explicit(&record->condemned_count, 0, memory_order_relaxed);
    atomic_store_explicit(&record->retires, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < condemned->count; i++)
        stats_condemn(record, condemned->samples[i]);
}

static void take_record(const struct loader_process *loader, uint64_t feed) {
    atomic_store_explicit(&loader->record->pid, (uint64_t)process_pid(&loader->process),
                          memory_order_relaxed);
    // Pairs with the acquire in add_loaders.
    atomic_store_explicit(loader->record_owner, feed, memory_order_release);
}

void loader_process_retire(struct loader_process *loader, struct stats_feed *feed) {
    struct stats_loader *record = loader->record;
    stats_feed_write_begin(feed);
    for (int i = 0; i < LOADER_COUNTERS; i++) {
        stats_add(&feed->retired[i], atomic_load_explicit(&record->counters[i], memory_order_relaxed));
        atomic_store_explicit(&record->counters[i], 0, memory_order_relaxed);
    }
    latencies_move(feed->retired_latencies, record->latencies, LOADER_LATENCIES);
    atomic_store_explicit(&record->pid, 0, memory_order_relaxed);
    atomic_store_explicit(loader->record_owner, 0, memory_order_release);
    stats_feed_write_end(feed);
    process_release(&loader->process);
}

// ---- Starting ----------------------------------------------------------------------------------------------

static int write_whole(int fd, const void *bytes, uint64_t count, uint64_t offset) {
    for (uint64_t done = 0; done < count;) {
        ssize_t wrote = pwrite(fd, (const uint8_t *)bytes + done, count - done, (off_t)(offset + done));
        if (wrote <= 0)
            return wrote < 0 ? -errno : -EIO;
        done += (uint64_t)wrote;
    }
    return 0;
}

#define LAYOUT_BLOCK 4096u

static bool is_zero(const uint8_t *bytes, uint64_t count) {
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

// Skips zeros, which a new file has anyway, except at the end of the fixed part: most of that is room for fields that
// the dataset does not have. The rest, the files, is written whole.
static int write_layout(int fd, const struct dataset_layout *layout, uint64_t offset) {
    const uint8_t *bytes = (const uint8_t *)layout;
    const uint64_t fixed = sizeof *layout;
    int err = 0;
    for (uint64_t at = 0, count; at < fixed && !err; at += count) {
        count = min_u64(LAYOUT_BLOCK, fixed - at);
        if (at + count == fixed || !is_zero(bytes + at, count))
            err = write_whole(fd, bytes + at, count, offset + at);
    }
    return err ? err : write_whole(fd, bytes + fixed, layout->bytes - fixed, offset + fixed);
}

static bool shares(const struct loader_start *start) {
    return start->share_arena < start->share->arenas;
}

static int write_settings(const struct loader_start *start, uint32_t record, int *settings_fd,
                          struct error *error) {
    const struct dataset *dataset = start->dataset;
    const uint64_t head = offsetof(struct loader_settings, layout);
    struct loader_settings settings = {
        .bytes = head + dataset->layout->bytes,
        .feed = start->feed,
        .serial = start->serial,
        .stripe = start->stripe,
        .stripes = start->stripes,
        .stats_record = record,
        .io = dataset->io,
        .queue_depth = start->queue_depth,
        .io_delay_us = dataset->io_delay_us,
        .on_error = dataset->on_error,
        .io_direct = dataset->io_direct,
        .log_level = log_get_level(),
        .confine = confine_is_wanted(),
        .supervisor_pid = (uint64_t)getpid(),
        .mapped_limit = start->mapped_limit,
        .mix = *start->mix,
        .mix_shuffle = start->mix_shuffle,
        .share_arena = start->share_arena,
        .gpu_images = start->gpu_images,
    };
    if (shares(start))
        settings.share = *start->share;
    AUTO_CLOSE int fd = memfd_create("feedd-loader-settings", MFD_CLOEXEC);
    if (fd < 0)
        return error_set(error, -errno, "cannot make a memory file for a loader's settings: %m");
    int err = write_whole(fd, &settings, head, 0);
    if (!err)
        err = write_layout(fd, dataset->layout, head);
    if (err) {
        errno = -err;
        return error_set(error, err, "cannot write a loader's settings: %m");
    }
    *settings_fd = fd;
    fd = -1;
    return 0;
}

void loader_process_free(struct process *process) {
    struct loader_process *loader = loader_process_of(process);
    close_fd(&loader->assignment_fd);
    free(loader);
}

// Which the process is to have, by their numbers; -1: none.
static void gather_descriptors(const struct loader_start *start, int settings_fd, int *fds) {
    const struct dataset *dataset = start->dataset;
    const uint32_t files = dataset->layout->file_count, parts = dataset->layout->part_count;
    fds[STDIN_FILENO] = -1;
    fds[STDOUT_FILENO] = STDOUT_FILENO;
    fds[STDERR_FILENO] = STDERR_FILENO;
    fds[HERITAGE_SETTINGS] = settings_fd;
    fds[HERITAGE_RING] = start->ring_fd;
    fds[HERITAGE_STATS] = start->stats_fd;
    fds[HERITAGE_EVENT] = start->event_fd;
    fds[HERITAGE_LIFE] = -1;
    fds[HERITAGE_LIST] = dataset->list_fd;
    fds[HERITAGE_INDEX] = dataset->index_fd;
    for (uint32_t i = 0; i < files; i++)
        fds[HERITAGE_FILES + i] = dataset->fds[i];
    fds[HERITAGE_PARTS] = dataset->parts_fd;
    fds[HERITAGE_BLOCKS] = shares(start) ? start->share_fd : -1;
    fds[HERITAGE_CACHE] = parts ? -1 : start->caches->memory;
    fds[HERITAGE_CACHE_FILE] = parts ? -1 : start->caches->file;
    for (uint32_t i = 0; i < parts; i++) {
        int *part = &fds[HERITAGE_FILES + files + 4 * i];
        part[0] = dataset->sources[i]->list_fd;
        part[1] = dataset->sources[i]->index_fd;
        part[2] = start->caches[i].memory;
        part[3] = start->caches[i].file;
    }
}

// Before the process can write to the record.
static void introduce(struct loader_process *loader, const struct loader_start *start, uint32_t record) {
    loader->serial = start->serial;
    loader->share_arena = start->share_arena;
    loader->stripe = start->stripe;
    loader->record = &start->stats->loaders[record];
    loader->record_owner = &start->stats->owners.feed[record];
    prepare_record(loader->record, start->condemned);
    atomic_store_explicit(&loader->record->stripe, STATS_STRIPE(start->stripe, start->stripes),
                          memory_order_relaxed);
}

static int spawn(const struct loader_start *start, uint32_t record, int *fds, uint32_t count,
                 struct loader_process **started, struct error *error) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_set(error, -errno, "cannot make a pipe for a loader: %m");
    AUTO_CLOSE int far_end = ends[1];
    struct loader_process *loader = calloc(1, sizeof *loader);
    if (!loader) {
        close(ends[0]);
        return error_set(error, -ENOMEM, "out of memory");
    }
    loader->assignment_fd = -1;
    introduce(loader, start, record);
    fds[HERITAGE_LIFE] = far_end;
    char feed[32];
    snprintf(feed, sizeof feed, "feed %" PRIu64, start->feed);
    char *arguments[] = {(char *)"feedd-loader", (char *)"--role=loader", feed, NULL};
    const struct process_start options = {
        .processes = start->processes,
        .poll_set = start->poll_set,
        .what = "loader process",
        .arguments = arguments, // shown by ps, to everybody, so it names no dataset; not read
        .fds = fds,
        .fd_count = count,
        .channel = ends[0],
        .changed = start->changed,
        .closed = loader_process_free,
        .owner = start->owner,
    };
    *started = loader;
    return process_start(&loader->process, &options, error);
}

static bool assign(const struct loader_start *start, uint32_t record, const int *fds, uint32_t count) {
    struct loader_process *loader = start->prepared;
    if (!loader)
        return false;
    introduce(loader, start, record);
    int err = loader_prepared_assign(loader, start->feed, fds, count);
    if (err) {
        log_debug("process %d cannot become a loader of feed %" PRIu64 ": %s",
                  (int)process_pid(&loader->process), start->feed, strerror(-err));
        return false;
    }
    process_hand_over(&loader->process, start->owner, start->changed);
    return true;
}

uint32_t loader_process_numbers(const struct dataset *dataset) {
    return HERITAGE_FILES + dataset->layout->file_count + 4 * dataset->layout->part_count;
}

static int start_with_settings(const struct loader_start *start, uint32_t record,
                               struct loader_process **started, int settings_fd, struct error *error) {
    const uint32_t count = loader_process_numbers(start->dataset);
    struct loader_process *loader = start->prepared;
    AUTO_FREE int *fds = calloc(count, sizeof *fds);
    if (!fds)
        return error_set(error, -ENOMEM, "out of memory");
    gather_descriptors(start, settings_fd, fds);
    if (!assign(start, record, fds, count)) {
        int err = spawn(start, record, fds, count, &loader, error);
        if (err)
            return err;
    }
    take_record(loader, start->feed);
    *started = loader;
    return 0;
}

int loader_process_start(const struct loader_start *start, struct loader_process **started,
                         struct error *error) {
    AUTO_CLOSE int settings_fd = -1;
    uint32_t record;
    int err = find_record(start->stats, &record, error);
    if (!err)
        err = write_settings(start, record, &settings_fd, error);
    if (!err)
        err = start_with_settings(start, record, started, settings_fd, error);
    if (err)
        return err;
    log_debug("loader %u of feed %" PRIu64 " %s as process %d, with stripe %u of %u", start->serial,
              start->feed, *started == start->prepared ? "begins" : "started",
              (int)process_pid(&(*started)->process), start->stripe, start->stripes);
    return 0;
}
