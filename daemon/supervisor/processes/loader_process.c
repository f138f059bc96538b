#include "daemon/supervisor/processes/loader_process.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/time.h"
#include "daemon/heritage.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "shm/stats.h"

// A loader that lived for less and read nothing was unable to start.
#define QUICK_DEATH_NS (1000 * NS_PER_MS)

static const char *const state_names[CHILD_STATES] = {"running", "stopping", "killed", "exited", "gone"};

const char *child_state_name(enum child_state state) {
    return state < CHILD_STATES ? state_names[state] : "?";
}

static void set_state(struct child *child, enum child_state state) {
    // Bits: the states that may follow.
    static const uint8_t allowed[CHILD_STATES] = {
        [CHILD_RUNNING] = 1 << CHILD_STOPPING | 1 << CHILD_KILLED | 1 << CHILD_EXITED,
        [CHILD_STOPPING] = 1 << CHILD_KILLED | 1 << CHILD_EXITED,
        [CHILD_KILLED] = 1 << CHILD_EXITED,
        [CHILD_EXITED] = 1 << CHILD_GONE,
        [CHILD_GONE] = 0,
    };
    assert(allowed[child->state] >> state & 1);
    child->state = state;
}

// ---- Ending ------------------------------------------------------------------------------------------------

// Its counters go to the feed's `retired` in one bracket, so that a reader sees them here or there, never twice.
static void retire_record(struct child *child) {
    struct stats_loader *record = &child->feed->supervisor->stats->loaders[child->record];
    struct stats_feed *feed = child->feed->stats;
    stats_feed_write_begin(feed);
    for (int i = 0; i < LOADER_COUNTERS; i++) {
        stats_add(&feed->retired[i], atomic_load_explicit(&record->counters[i], memory_order_relaxed));
        atomic_store_explicit(&record->counters[i], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&record->pid, 0, memory_order_relaxed);
    atomic_store_explicit(&record->feed, 0, memory_order_release);
    stats_feed_write_end(feed);
}

static void on_handle_closed(uv_handle_t *handle) {
    struct child *child = handle->data;
    if (--child->open_handles)
        return;
    struct served_feed *feed = child->feed;
    LIST_REMOVE(child, link);
    close_fd(&child->life_fd);
    free(child);
    feed_child_gone(feed);
}

// Reaped, and the kernel has finished with what it had submitted: nobody writes for it any more.
void child_finish(struct child *child) {
    if (child->state != CHILD_EXITED || !child->life_ended || !feed_child_recover(child->feed, child->serial))
        return;
    set_state(child, CHILD_GONE);
    retire_record(child);
    uv_close((uv_handle_t *)&child->process, on_handle_closed);
    uv_close((uv_handle_t *)&child->life, on_handle_closed);
}

static void on_life(uv_poll_t *poll, int status, int events) {
    struct child *child = poll->data;
    char byte;
    (void)events;
    if (status == 0 && read(child->life_fd, &byte, 1) != 0)
        return;
    uv_poll_stop(poll);
    child->life_ended = true;
    child_finish(child);
}

static void describe_end(const struct child *child, int64_t exit_status, int signal, uint64_t lived_ns) {
    struct supervisor *supervisor = child->feed->supervisor;
    double seconds = (double)lived_ns / 1e9;
    if (child->state == CHILD_STOPPING)
        log_debug("loader %u of feed %" PRIu64 " has ended", child->serial, child->feed->id);
    else if (signal)
        supervisor_report(supervisor,
                          "loader %u of feed %" PRIu64 " was ended by signal %d (%s) after %.1f s",
                          child->serial, child->feed->id, signal, strsignal(signal), seconds);
    else
        supervisor_report(supervisor,
                          "loader %u of feed %" PRIu64 " ended by itself with status %d after %.1f s",
                          child->serial, child->feed->id, (int)exit_status, seconds);
}

// It got as far as its work: what ended it is no trouble with starting.
static bool has_worked(const struct child *child) {
    const struct stats_loader *record = &child->feed->supervisor->stats->loaders[child->record];
    return atomic_load_explicit(&record->counters[LOADER_samples], memory_order_relaxed) > 0;
}

static void on_process_exit(uv_process_t *process, int64_t exit_status, int signal) {
    struct child *child = process->data;
    uint64_t lived = monotonic_ns() - child->started_ns;
    describe_end(child, exit_status, signal, lived);
    bool unexpected = child->state != CHILD_STOPPING;
    set_state(child, CHILD_EXITED);
    feed_child_exited(child->feed, unexpected, lived < QUICK_DEATH_NS && !has_worked(child));
    child_finish(child);
}

void child_stop(struct child *child) {
    if (child->state != CHILD_RUNNING)
        return;
    set_state(child, CHILD_STOPPING);
    child->stopping_since_ns = monotonic_ns();
    uv_process_kill(&child->process, SIGTERM);
}

void child_kill(struct child *child) {
    if (child->state != CHILD_RUNNING && child->state != CHILD_STOPPING)
        return;
    set_state(child, CHILD_KILLED);
    uv_process_kill(&child->process, SIGKILL);
}

// ---- Starting ----------------------------------------------------------------------------------------------

static int write_settings(const struct child *child, int *settings_fd, struct error *error) {
    const struct served_feed *feed = child->feed;
    const struct dataset *dataset = feed->dataset;
    struct loader_settings settings = {
        .bytes = offsetof(struct loader_settings, layout) + dataset->layout->bytes,
        .feed = feed->id,
        .serial = child->serial,
        .stats_record = child->record,
        .io = dataset->io,
        .queue_depth = (uint32_t)feed->supervisor->config->queue_depth,
        .io_delay_us = dataset->io_delay_us,
        .skip_errors = dataset->skip_errors,
        .io_direct = dataset->io_direct,
        .log_level = log_get_level(),
        .supervisor_pid = (uint64_t)getpid(),
        .mapped_limit = feed->supervisor->config->mapped_limit,
    };
    AUTO_CLOSE int fd = memfd_create("feedd-loader-settings", MFD_CLOEXEC);
    if (fd < 0)
        return error_set(error, -errno, "cannot make a memory file for a loader's settings: %m");
    size_t head = offsetof(struct loader_settings, layout);
    if (pwrite(fd, &settings, head, 0) != (ssize_t)head)
        return error_set(error, -EIO, "cannot write a loader's settings: %m");
    for (uint64_t done = 0; done < dataset->layout->bytes;) {
        ssize_t wrote = pwrite(fd, (const uint8_t *)dataset->layout + done, dataset->layout->bytes - done,
                               (off_t)(head + done));
        if (wrote <= 0)
            return error_set(error, -EIO, "cannot write a loader's settings: %m");
        done += (uint64_t)wrote;
    }
    *settings_fd = fd;
    fd = -1;
    return 0;
}

static void inherit(uv_stdio_container_t *place, int fd) {
    place->flags = UV_INHERIT_FD;
    place->data.fd = fd;
}

static int start_process(struct child *child, int settings_fd, int life_fd, struct error *error) {
    struct served_feed *feed = child->feed;
    uint32_t files = feed->dataset->layout->file_count;
    AUTO_FREE uv_stdio_container_t *stdio = calloc(HERITAGE_FILES + files, sizeof *stdio);
    if (!stdio)
        return error_set(error, -ENOMEM, "out of memory");
    stdio[0].flags = UV_IGNORE; // becomes /dev/null
    inherit(&stdio[1], STDOUT_FILENO);
    inherit(&stdio[2], STDERR_FILENO);
    inherit(&stdio[HERITAGE_SETTINGS], settings_fd);
    inherit(&stdio[HERITAGE_RING], feed->ring_fd);
    inherit(&stdio[HERITAGE_STATS], feed->supervisor->stats_fd);
    inherit(&stdio[HERITAGE_EVENT], feed->event_fd);
    inherit(&stdio[HERITAGE_LIFE], life_fd);
    for (uint32_t i = 0; i < files; i++)
        inherit(&stdio[HERITAGE_FILES + i], feed->dataset->fds[i]);
    char role[] = "feedd-loader";
    char option[] = "--role=loader";
    char name[PROTO_MAX_NAME + 1];
    snprintf(name, sizeof name, "%s", feed->dataset->name); // shown by ps, not read
    char *arguments[] = {role, option, name, NULL};
    uv_process_options_t options = {
        .exit_cb = on_process_exit,
        .file = "/proc/self/exe",
        .args = arguments,
        .stdio = stdio,
        .stdio_count = (int)(HERITAGE_FILES + files),
    };
    child->open_handles++; // initialised by uv_spawn even when that fails
    int err = uv_spawn(&feed->supervisor->loop, &child->process, &options);
    if (err)
        return error_set(error, err, "cannot start a loader process: %s", uv_strerror(err));
    return 0;
}

static int find_record(struct supervisor *supervisor, uint32_t *record, struct error *error) {
    for (uint32_t i = 0; i < STATS_MAX_LOADERS; i++)
        if (atomic_load_explicit(&supervisor->stats->loaders[i].feed, memory_order_relaxed) == 0) {
            *record = i;
            return 0;
        }
    return error_set(error, -EBUSY, "this daemon has %u loader processes already, the most it can have",
                     STATS_MAX_LOADERS);
}

// Before the process is there: afterwards these words are its own.
static void prepare_record(const struct child *child) {
    struct stats_loader *record = &child->feed->supervisor->stats->loaders[child->record];
    atomic_store_explicit(&record->heartbeat_ns, child->started_ns, memory_order_relaxed);
    atomic_store_explicit(&record->reader, 0, memory_order_relaxed);
    atomic_store_explicit(&record->reader_reason, 0, memory_order_relaxed);
}

static void take_record(const struct child *child) {
    struct stats_loader *record = &child->feed->supervisor->stats->loaders[child->record];
    atomic_store_explicit(&record->pid, (uint64_t)child->process.pid, memory_order_relaxed);
    // Pairs with the acquire in add_loaders.
    atomic_store_explicit(&record->feed, child->feed->id, memory_order_release);
}

static int start_with_pipe(struct child *child, struct error *error) {
    AUTO_CLOSE int settings_fd = -1;
    AUTO_CLOSE int life_fd = -1;
    int ends[2];
    int err = write_settings(child, &settings_fd, error);
    if (err)
        return err;
    prepare_record(child);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_set(error, -errno, "cannot make a pipe for a loader: %m");
    child->life_fd = ends[0];
    life_fd = ends[1];
    err = uv_poll_init(&child->feed->supervisor->loop, &child->life, child->life_fd);
    if (err)
        return error_set(error, err, "cannot watch a loader's pipe: %s", uv_strerror(err));
    child->open_handles++;
    return start_process(child, settings_fd, life_fd, error);
}

static void on_unborn_closed(uv_handle_t *handle) {
    struct child *child = handle->data;
    if (--child->open_handles)
        return;
    close_fd(&child->life_fd);
    free(child);
}

// libuv keeps handles until they are closed; how many there are says how far it came: the pipe first, then the
// process.
static void discard_unborn(struct child *child) {
    uint32_t opened = child->open_handles;
    if (!opened) {
        close_fd(&child->life_fd);
        free(child);
        return;
    }
    uv_close((uv_handle_t *)&child->life, on_unborn_closed);
    if (opened > 1)
        uv_close((uv_handle_t *)&child->process, on_unborn_closed);
}

int child_spawn(struct served_feed *feed, struct error *error) {
    struct child *child = calloc(1, sizeof *child);
    if (!child)
        return error_set(error, -ENOMEM, "out of memory");
    child->feed = feed;
    child->life_fd = -1;
    child->serial = feed->next_serial;
    child->started_ns = monotonic_ns();
    child->process.data = child->life.data = child;
    int err = find_record(feed->supervisor, &child->record, error);
    if (!err)
        err = start_with_pipe(child, error);
    if (err) {
        discard_unborn(child);
        return err;
    }
    feed->next_serial++;
    child->state = CHILD_RUNNING;
    take_record(child);
    uv_poll_start(&child->life, UV_READABLE | UV_DISCONNECT, on_life);
    LIST_INSERT_HEAD(&feed->children, child, link);
    feed->loaders_running++;
    log_debug("loader %u of feed %" PRIu64 " started as process %d", child->serial, feed->id,
              child->process.pid);
    return 0;
}
