#include "daemon/loader/loader.h"

#include <inttypes.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/confine/confine.h"
#include "daemon/heritage.h"
#include "daemon/io_mode.h"
#include "daemon/loader/job_oldest.h"
#include "daemon/loader/job_round.h"
#include "daemon/loader/loader_heritage.h"
#include "daemon/loader/prepared.h"
#include "daemon/loader/read/file_maps.h"
#include "daemon/loader/read/page_tables.h"
#include "daemon/loader/read/readers.h"
#include "daemon/loader/read/reopen.h"
#include "daemon/loader/read/residency.h"
#include "daemon/loader/read/uring_queues.h"
#include "daemon/log.h"
#include "daemon/role.h"
#include "shm/ring_loader.h"
#include "shm/stats.h"

#define BEAT_NS   (100 * NS_PER_MS)
#define REVIEW_NS (1000 * NS_PER_MS) // how often io = auto checks residency
#define RESIDENT  0.98

struct loader {
    struct job_board board;
    struct stage_set stages;
    struct reader *reader;
    struct uring_queues queues; // lent to readers
    bool queues_made;
    bool prepared;             // it began before there was a feed
    struct ring_memory memory; // ... and mapped this, which may be its ring
    uint64_t confined;         // a word of shm/confinement.h
    enum io_mode mode;         // wanted; the reader is changed once it has nothing in flight
    enum io_mode open_mode;
    enum reader_reason reason;
    enum reader_kind shown; // in the statistics
    struct residency_probe probe;
    struct residency_policy policy;
    uint64_t beat_ns, review_ns;
    bool retires;                    // is to end when it has filled what it has claimed
    uint64_t reads_seen, waiting_ns; // reads finished when last looked; since when it has waited for the next
    uint64_t reads_counted, storage_counted; // of the reader's, already in the statistics
};

// ---- Start -------------------------------------------------------------------------------------------------

static uint64_t major_faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_majflt;
}

// Every 2 MiB touched of a map cost one page of page tables in each loader.
#define MAPPED_PER_TABLE_BYTE 512u
#define TABLES_MIN            (1ull << 20)

static bool is_large(const struct loader_settings *settings) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < settings->layout.file_count; i++)
        bytes += settings->layout.files[i].bytes;
    return bytes > settings->mapped_limit;
}

static uint64_t table_growth(const struct loader *loader) {
    if (!is_large(loader->board.settings))
        return UINT64_MAX; // they cannot grow further
    uint64_t tables = max_u64(loader->board.settings->mapped_limit / MAPPED_PER_TABLE_BYTE, TABLES_MIN);
    return tables + loader->board.ring.mapped_bytes / MAPPED_PER_TABLE_BYTE;
}

static void choose_mode(struct loader *loader) {
    const struct loader_settings *settings = loader->board.settings;
    loader->mode = (enum io_mode)settings->io;
    loader->reason = REASON_CONFIGURED;
    if (settings->io != IO_AUTO)
        return;
    loader->mode = IO_URING;
    if (settings->io_delay_us) {
        loader->reason = REASON_DELAY;
    } else if (settings->layout.folder_count) {
        loader->reason = REASON_FOLDER;
    } else if (settings->io_direct) {
        loader->reason = REASON_DIRECT;
    } else if (is_large(settings)) {
        loader->reason = REASON_LARGE;
    } else {
        loader->probe.random = settings->serial * UINT64_C(0x9e3779b97f4a7c15);
        residency_policy_init(&loader->policy, major_faults(), monotonic_ns());
        loader->review_ns = monotonic_ns();
        bool resident = residency_sample(&settings->layout, HERITAGE_FILES, &loader->probe) >= RESIDENT;
        loader->policy.mode = loader->mode = resident ? IO_MAPPED : IO_URING;
        const bool known = loader->probe.method != RESIDENCY_NONE;
        loader->reason = !known ? REASON_UNKNOWN : resident ? REASON_RESIDENT : REASON_COLD;
    }
}

static bool mode_is_reviewed(const struct loader *loader) {
    const struct loader_settings *settings = loader->board.settings;
    return settings->io == IO_AUTO && !settings->io_delay_us && !settings->io_direct &&
           !settings->layout.folder_count && !is_large(settings);
}

// ---- The reader --------------------------------------------------------------------------------------------

static void publish_reader(struct loader *loader) {
    struct stats_loader *stats = loader->board.stats;
    loader->shown = loader->reader->kind;
    atomic_store_explicit(&stats->reader, loader->shown, memory_order_relaxed);
    atomic_store_explicit(&stats->reader_reason, loader->reason, memory_order_relaxed);
    log_debug("reads with %s: %s", reader_kind_name(loader->reader->kind),
              reader_reason_text(loader->reason));
}

static struct reader_options reader_options(struct loader *loader) {
    const struct loader_settings *settings = loader->board.settings;
    return (struct reader_options){
        .layout = &settings->layout,
        .ring = &loader->board.ring,
        .folders = loader->board.folders,
        .first_fd = HERITAGE_FILES,
        .depth = settings->queue_depth,
        .delay_us = settings->io_delay_us,
        .life_fd = HERITAGE_LIFE,
        .table_bytes = table_growth(loader),
        .read_file = &loader->board.stats->read_file,
        .queues = loader->queues_made ? &loader->queues : NULL,
    };
}

static int open_reader(struct loader *loader, struct error *error) {
    const struct loader_settings *settings = loader->board.settings;
    struct reader_options options = reader_options(loader);
    enum reader_reason reason;
    if (loader->mode == IO_MAPPED && is_large(settings))
        log_info("the dataset is larger than mapped_limit: it is mapped again whenever that much of it has "
                 "been touched");
    int err = readers_open(loader->mode, &options, &loader->reader, &reason, error);
    if (err)
        return err;
    if (reason != REASON_NONE)
        loader->reason = reason;
    loader->open_mode = loader->mode;
    loader->reads_counted = loader->storage_counted = 0;
    bool merges = !settings->io_delay_us && dataset_plain_files(&settings->layout);
    loader->board.plan_flags = merges ? CHUNK_MERGE : 0;
    if (merges && loader->reader->kind != READER_MAPPED)
        loader->board.plan_flags |= CHUNK_SORT;
    publish_reader(loader);
    return 0;
}

// What a reader was asked for may turn out to be impossible, or begin to work, only while it reads.
static void hear_reader(struct loader *loader) {
    const struct reader *reader = loader->reader;
    if (!reader || loader->mode != loader->open_mode)
        return;
    bool news = reader->reason != REASON_NONE && reader->reason != loader->reason;
    if (news)
        loader->reason = reader->reason;
    if (news || reader->kind != loader->shown)
        publish_reader(loader);
}

static bool settle(struct loader *loader, bool idle) {
    struct reader *reader = loader->reader;
    return reader && reader->settle && reader->settle(reader, loader->board.now_ns, idle);
}

static void count_reads(struct loader *loader) {
    const struct reader *reader = loader->reader;
    if (!reader)
        return; // the last one could not be replaced
    stats_add(&loader->board.stats->counters[LOADER_reads], reader->reads - loader->reads_counted);
    stats_add(&loader->board.stats->counters[LOADER_storage_bytes],
              reader->storage_bytes - loader->storage_counted);
    loader->reads_counted = reader->reads;
    loader->storage_counted = reader->storage_bytes;
}

// Before it looks into the ring, which others write. What a reader may need of paths is looked up here.
static void give_up_paths(struct loader *loader) {
    file_maps_prepare();
    page_tables_prepare();
    const struct dataset_layout *layout = &loader->board.settings->layout;
    loader->confined =
        confine_loader_early(HERITAGE_FILES + (int)dataset_plain_files(layout), layout->folder_count);
}

// From here on there can be no io_uring but this one. Only after this does the loader work on what others write to the
// ring, or look at a byte of the data.
static void confine(struct loader *loader) {
    const struct loader_settings *settings = loader->board.settings;
    bool uring = loader->mode == IO_URING || mode_is_reviewed(loader);
    struct reader_options options = reader_options(loader);
    if (!confine_is_wanted())
        return;
    if (uring)
        uring_queues_open(&loader->queues, &options, true);
    else if (loader->queues.prepared)
        uring_queues_close(&loader->queues);
    loader->queues_made = uring;
    // Every read needs a descriptor, and until the kernel has closed it, so may the one after it.
    uint32_t descriptors = HERITAGE_FILES + settings->layout.file_count + 2 * settings->queue_depth + 32;
    const struct confine_loader given = {
        .uring = uring && loader->queues.err == 0,
        .uring_restricted = loader->queues.restricted,
        .opens = settings->layout.folder_count && (!uring || loader->queues.err < 0),
        .descriptors = settings->layout.folder_count ? descriptors : 0,
        .threads = uring ? loader->queues.err < 0 : loader->mode == IO_PREAD,
    };
    atomic_store_explicit(&loader->board.stats->confined, confine_loader(&given, loader->confined),
                          memory_order_relaxed);
}

static int change_reader(struct loader *loader, struct error *error) {
    count_reads(loader);
    loader->reader->close(loader->reader);
    loader->reader = NULL;
    return open_reader(loader, error);
}

static void review_mode(struct loader *loader, uint64_t now) {
    if (!mode_is_reviewed(loader) || now < loader->review_ns + REVIEW_NS)
        return;
    loader->review_ns = now;
    double fraction = residency_sample(&loader->board.settings->layout, HERITAGE_FILES, &loader->probe);
    loader->mode = residency_policy_update(&loader->policy, fraction, major_faults(), now);
    if (loader->mode != loader->open_mode)
        loader->reason = loader->mode == IO_MAPPED ? REASON_RESIDENT : REASON_COLD;
}

// ---- Running -----------------------------------------------------------------------------------------------

// Storage that hangs must be noticed, whoever waits for it. If it is this thread, it is silent anyway; if it is the
// kernel's or the reader's threads, this one would keep beating while no read comes back. A delay that was asked for is
// not the storage's. For a read that hangs while others come back, see job_oldest_read.
static bool reads_hang(struct loader *loader, uint64_t now) {
    uint64_t delay_ns = loader->board.settings->io_delay_us * UINT64_C(1000);
    if (!loader->reader || !loader->reader->in_flight || loader->reads_seen != loader->board.reads_finished) {
        loader->reads_seen = loader->board.reads_finished;
        loader->waiting_ns = now;
    }
    return now > loader->waiting_ns + delay_ns;
}

static void publish_oldest(const struct loader *loader, const struct oldest_read *oldest, uint64_t now) {
    struct stats_loader *stats = loader->board.stats;
    uint64_t since = oldest->since_ns + loader->board.settings->io_delay_us * UINT64_C(1000);
    bool waits = oldest->any && since < now;
    atomic_store_explicit(&stats->read_since_ns, waits ? since : 0, memory_order_relaxed);
    atomic_store_explicit(&stats->read_file, waits ? oldest->file + 1 : 0, memory_order_relaxed);
}

// What the supervisor wants, which it may change.
static void hear_supervisor(struct loader *loader) {
    const struct stats_loader *stats = loader->board.stats;
    ring_take_stripe(&loader->board.ring, atomic_load_explicit(&stats->stripe, memory_order_relaxed));
    loader->retires = atomic_load_explicit(&stats->retires, memory_order_relaxed) != 0;
}

static void beat(struct loader *loader) {
    uint64_t now = loader->board.now_ns = job_clock_spend(&loader->board.clock, LOADER_fill_ns);
    settle(loader, false);
    if (now < loader->beat_ns + BEAT_NS)
        return;
    loader->beat_ns = now;
    struct oldest_read oldest = job_oldest_read(&loader->board);
    publish_oldest(loader, &oldest, now);
    if (!reads_hang(loader, now))
        atomic_store_explicit(&loader->board.stats->heartbeat_ns, now - oldest.overtaken_ns,
                              memory_order_relaxed);
    count_reads(loader);
    job_clock_count_cpu(&loader->board.clock);
    hear_supervisor(loader);
    hear_reader(loader);
    if (loader->reader && loader->reader->rest)
        loader->reader->rest(loader->reader);
    review_mode(loader, now);
}

static void sleep_for_work(struct loader *loader) {
    struct job_clock *clock = &loader->board.clock;
    if (settle(loader, true))
        return; // there may be work by now
    job_clock_spend(clock, LOADER_fill_ns);
    job_clock_waits(clock);
    ring_wait_for_work(&loader->board.ring, ROUND_WAIT_MS);
    job_clock_spend(clock, LOADER_room_wait_ns);
}

static int serve(struct loader *loader, struct error *error) {
    struct job_board *board = &loader->board;
    while (!role_stopping) {
        beat(loader);
        bool change = loader->mode != loader->open_mode;
        if (job_round(board, loader->reader, !change && !loader->retires)) {
            job_clock_works(&board->clock);
            continue;
        }
        if (loader->retires)
            return 0;
        if (change) {
            int err = change_reader(loader, error);
            if (err)
                return err;
        } else {
            sleep_for_work(loader);
        }
    }
    return 0;
}

static int start(struct loader *loader, struct error *error) {
    struct job_board *board = &loader->board;
    char role[32];
    int err = loader_map_settings(&board->settings, error);
    if (err || !board->settings)
        return err ? err : -EINVAL;
    snprintf(role, sizeof role, "loader %" PRIu64 ".%" PRIu32, board->settings->feed,
             board->settings->serial);
    log_rename(role);
    log_set_level((enum log_level)board->settings->log_level);
    confine_set(board->settings->confine);
    if (!loader->prepared)
        loader_begin();
    reopen_files(HERITAGE_FILES, dataset_plain_files(&board->settings->layout));
    err = role_tie(board->settings->supervisor_pid, error);
    if (err)
        return err;
    give_up_paths(loader);
    err = loader_map_shared(board, &loader->memory, error);
    if (!err && board->settings->layout.part_count)
        err = mix_parts_open(&board->mix, board->settings, board->ring.header, error);
    close(HERITAGE_PARTS);
    if (!err)
        err = stage_set_open(&loader->stages, &board->settings->layout, board->ring.header->fields,
                             board->settings->gpu_images, error);
    board->stages = &loader->stages;
    if (!err)
        stage_set_open_cache(&loader->stages, &board->settings->layout, HERITAGE_CACHE, HERITAGE_CACHE_FILE);
    close(HERITAGE_CACHE);
    close(HERITAGE_CACHE_FILE);
    if (err)
        return err;
    board->event_fd = HERITAGE_EVENT;
    choose_mode(loader);
    return job_board_open(board, error);
}

static int run(struct loader *loader, struct error *error) {
    int err = start(loader, error);
    if (!err && !role_stopping) {
        confine(loader);
        err = open_reader(loader, error);
    }
    return err || role_stopping ? err : serve(loader, error);
}

int loader_run(char **prepared) {
    struct loader loader = {.prepared = prepared != NULL};
    struct error error = {0};
    int err = prepared ? prepared_await(prepared, &loader.queues, &loader.memory, &error) : 0;
    if (err == -ECANCELED)
        return EXIT_SUCCESS;
    if (prepared)
        log_rename("loader");
    else
        log_open("loader", LOG_LEVEL_INFO);
    prctl(PR_SET_NAME, "feedd-loader");
    if (!err)
        err = run(&loader, &error);
    if (err)
        log_error("%s", error.text);
    if (loader.reader) {
        count_reads(&loader);
        job_clock_count_cpu(&loader.board.clock);
        loader.reader->close(loader.reader);
    }
    if (loader.queues_made)
        uring_queues_close(&loader.queues);
    job_board_close(&loader.board);
    mix_parts_close(loader.board.mix);
    stage_set_close(&loader.stages);
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
