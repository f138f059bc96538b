#include "daemon/supervisor/supervisor.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "gpu/gpu.h"
#include "shm/stats.h"
#include "shm/stats_read.h"

void supervisor_report(struct supervisor *supervisor, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log_error("%s", text);
    uint32_t place = supervisor->error_count++ % LAST_ERRORS;
    supervisor->last_errors[place].at_ns = monotonic_ns();
    memcpy(supervisor->last_errors[place].text, text, sizeof supervisor->last_errors[place].text - 1);
}

// ---- Stopping ----------------------------------------------------------------------------------------------
// Fixed order: no new sessions; clients are told; loaders and transfer processes are asked to end, then made to; then
// the loop.

static void close_if_open(uv_handle_t *handle) {
    if (handle->data && !uv_is_closing(handle))
        uv_close(handle, NULL);
}

// SIG_BLOCK or SIG_UNBLOCK, for this thread and those that it makes.
static void mask_watched_signals(int how) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(how, &signals, NULL);
}

static void end_loop(struct supervisor *supervisor) {
    supervisor->state = SUPERVISOR_STOPPED;
    // Without its watcher a signal would do what it does by default, and end us before all is tidied up.
    mask_watched_signals(SIG_BLOCK);
    close_if_open((uv_handle_t *)&supervisor->on_term);
    close_if_open((uv_handle_t *)&supervisor->on_interrupt);
    close_if_open((uv_handle_t *)&supervisor->on_hangup);
    close_if_open((uv_handle_t *)&supervisor->owner);
    close_if_open((uv_handle_t *)&supervisor->tick);
    close_if_open((uv_handle_t *)&supervisor->moderation.before_poll);
    close_if_open((uv_handle_t *)&supervisor->moderation.after_poll);
}

// From the tick alone: a stop frees what those may still hold in hand who free a feed or a device.
static void finish_drain(struct supervisor *supervisor) {
    const struct served_feed *feed;
    if (supervisor->state != SUPERVISOR_DRAINING)
        return;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        if (feed_in_use(feed))
            return;
    supervisor_stop(supervisor);
}

void supervisor_check_done(struct supervisor *supervisor) {
    if (supervisor->state == SUPERVISOR_STOPPING && LIST_EMPTY(&supervisor->feeds) &&
        LIST_EMPTY(&supervisor->sessions) && LIST_EMPTY(&supervisor->devices) && !supervisor->reloading)
        end_loop(supervisor);
}

void supervisor_stop(struct supervisor *supervisor) {
    struct session *session;
    struct served_feed *feed;
    if (supervisor->state >= SUPERVISOR_STOPPING)
        return;
    log_info("stopping");
    notify_stopping();
    supervisor->state = SUPERVISOR_STOPPING;
    supervisor->stop_deadline_ns = monotonic_ns() + supervisor->config->stop_timeout_s * NS_PER_S;
    close_if_open((uv_handle_t *)&supervisor->listener);
    LIST_FOREACH(feed, &supervisor->feeds, link)
        feed_close(feed);
    LIST_FOREACH(session, &supervisor->sessions, link)
        session_fail(session, -ESHUTDOWN, "feedd is stopping");
    devices_stop(supervisor, false);
    supervisor_check_done(supervisor);
}

void supervisor_drain(struct supervisor *supervisor) {
    if (supervisor->state != SUPERVISOR_RUNNING)
        return;
    log_info("draining: no new consumers; stops when the last one has left");
    supervisor->state = SUPERVISOR_DRAINING;
    // Not from here: the asker has not had its answer yet. The next tick looks.
}

static void enforce_stop(struct supervisor *supervisor) {
    struct served_feed *feed;
    struct loader_process *loader;
    if (supervisor->state != SUPERVISOR_STOPPING || monotonic_ns() < supervisor->stop_deadline_ns)
        return;
    LIST_FOREACH(feed, &supervisor->feeds, link) {
        LIST_FOREACH(loader, &feed->children, link) {
            log_warning("loader %" PRIu32 " of feed %" PRIu64 " does not end; killing it", loader->serial,
                        feed->id);
            process_kill(&loader->process);
        }
    }
    devices_stop(supervisor, true);
    if (monotonic_ns() < supervisor->stop_deadline_ns + supervisor->config->stop_timeout_s * NS_PER_S)
        return;
    log_error("children do not end although they were killed; leaving without them");
    supervisor->exit_code = EXIT_FAILURE;
    uv_stop(&supervisor->loop);
}

// ---- Running -----------------------------------------------------------------------------------------------

static void on_tick(uv_timer_t *timer) {
    struct supervisor *supervisor = timer->data;
    struct stats_header *header = &supervisor->stats->header;
    uint64_t now = monotonic_ns();
    atomic_store_explicit(&header->heartbeat_ns, now, memory_order_relaxed);
    atomic_store_explicit(&header->sessions, supervisor->session_count, memory_order_relaxed);
    atomic_store_explicit(&header->ring_bytes, supervisor->ring_bytes, memory_order_relaxed);
    if (supervisor->watchdog_ns && now >= supervisor->watchdog_next_ns) {
        notify_watchdog();
        supervisor->watchdog_next_ns = now + supervisor->watchdog_ns;
    }
    watch_tick(supervisor);
    enforce_stop(supervisor);
    if (supervisor->state < SUPERVISOR_STOPPING)
        listen_start(supervisor); // after it had to pause for want of descriptors
    finish_drain(supervisor);
    supervisor_check_done(supervisor);
}

static void on_stop_signal(uv_signal_t *handle, int number) {
    log_info("got signal %d (%s)", number, strsignal(number));
    supervisor_stop(handle->data);
}

static void on_reload_signal(uv_signal_t *handle, int number) {
    (void)number;
    reload_start(handle->data, 0);
}

// Standard input is a pipe whose other end only our owner has: it ends when the owner does, however that ends.
static void on_owner(uv_poll_t *poll, int status, int events) {
    char unwanted[256];
    (void)status;
    (void)events;
    if (read(STDIN_FILENO, unwanted, sizeof unwanted) > 0)
        return;
    uv_poll_stop(poll);
    log_info("standard input has ended");
    supervisor_stop(poll->data);
}

static int watch_owner(struct supervisor *supervisor, struct error *error) {
    int err = uv_poll_init(&supervisor->loop, &supervisor->owner, STDIN_FILENO);
    if (err)
        return error_set(error, err, "--until-eof cannot watch standard input, which is no pipe: %s",
                         uv_strerror(err));
    supervisor->owner.data = supervisor;
    return uv_poll_start(&supervisor->owner, UV_READABLE | UV_DISCONNECT, on_owner);
}

static void no_work(uv_work_t *work) {
    (void)work;
}
static void after_no_work(uv_work_t *work, int status) {
    (void)work;
    (void)status;
}

// libuv makes its threads when they are first used, and aborts if it cannot. Let that be now, and not when the first
// client attaches and the limit on tasks has been reached.
static void start_threads(struct supervisor *supervisor) {
    static uv_work_t work;
    mask_watched_signals(SIG_BLOCK); // they are this thread's alone: see end_loop
    uv_queue_work(&supervisor->loop, &work, no_work, after_no_work);
    mask_watched_signals(SIG_UNBLOCK);
}

static void start_handles(struct supervisor *supervisor) {
    uv_loop_t *loop = &supervisor->loop;
    uv_signal_init(loop, &supervisor->on_term);
    uv_signal_init(loop, &supervisor->on_interrupt);
    uv_signal_init(loop, &supervisor->on_hangup);
    uv_timer_init(loop, &supervisor->tick);
    supervisor->on_term.data = supervisor->on_interrupt.data = supervisor;
    supervisor->on_hangup.data = supervisor->tick.data = supervisor;
    uv_signal_start(&supervisor->on_term, on_stop_signal, SIGTERM);
    uv_signal_start(&supervisor->on_interrupt, on_stop_signal, SIGINT);
    uv_signal_start(&supervisor->on_hangup, on_reload_signal, SIGHUP);
    moderation_start(supervisor);
    uv_timer_start(&supervisor->tick, on_tick, SUPERVISOR_TICK_MS, SUPERVISOR_TICK_MS);
}

static int start(struct supervisor *supervisor, bool until_eof, struct error *error) {
    const struct config *config = supervisor->config;
    int err = datasets_open(config, &supervisor->datasets, error);
    if (err)
        return err;
    supervisor->dataset_count = config->dataset_count;
    // From here on there is something to tidy up, so that signals must not just end us.
    start_handles(supervisor);
    err = until_eof ? watch_owner(supervisor, error) : 0;
    if (!err)
        err = listen_open(supervisor, error);
    if (err)
        return err;
    err = stats_path(supervisor->socket_path, supervisor->stats_path, sizeof supervisor->stats_path);
    if (err)
        return error_set(error, err, "the socket path %s is too long", supervisor->socket_path);
    // Whoever may connect may read the statistics.
    uint32_t mode = config->socket_mode & 0444;
    err = stats_create(supervisor->stats_path, 0600 | mode, supervisor->group, &supervisor->stats,
                       &supervisor->stats_fd, error);
    if (err)
        return err;
    supervisor->stats->header.ring_memory = config->ring_memory;
    start_threads(supervisor);
    err = listen_start(supervisor);
    return err ? error_set(error, err, "cannot watch the socket: %s", uv_strerror(err)) : 0;
}

static void release(struct supervisor *supervisor) {
    if (supervisor->stats) {
        atomic_store_explicit(&supervisor->stats->header.stopped, 1, memory_order_relaxed);
        unlink(supervisor->stats_path);
        stats_close(supervisor->stats);
    }
    close_fd(&supervisor->stats_fd);
    listen_close(supervisor);
    datasets_close(supervisor->datasets, supervisor->dataset_count);
    codec_arena_free(&supervisor->arena);
    config_free(supervisor->config);
}

int supervisor_run(struct config *config, bool until_eof) {
    struct supervisor *supervisor = calloc(1, sizeof *supervisor);
    struct error error = {0};
    if (!supervisor || uv_loop_init(&supervisor->loop) != 0) {
        log_error("out of memory");
        return EXIT_FAILURE;
    }
    LIST_INIT(&supervisor->sessions);
    LIST_INIT(&supervisor->feeds);
    LIST_INIT(&supervisor->devices);
    signal(SIGPIPE, SIG_IGN); // a reader of our log may go away
    supervisor->config = config;
    supervisor->group = (gid_t)-1;
    supervisor->listen_fd = supervisor->lock_fd = supervisor->stats_fd = -1;
    supervisor->started_ns = monotonic_ns();
    supervisor->watchdog_ns = notify_watchdog_interval_ns();
    if (start(supervisor, until_eof, &error) < 0) {
        log_error("%s", error.text);
        supervisor->exit_code = EXIT_FAILURE;
        close_if_open((uv_handle_t *)&supervisor->listener);
        end_loop(supervisor);
    } else {
        log_info("version " FEEDD_VERSION " serves %zu dataset%s on %s", supervisor->dataset_count,
                 supervisor->dataset_count == 1 ? "" : "s", supervisor->socket_path);
        char gpus[192];
        gpu_support((uint32_t)config->simulated_gpus, gpus, sizeof gpus);
        log_info("delivery to GPUs: %s", gpus);
        notify_ready(supervisor);
    }
    uv_run(&supervisor->loop, UV_RUN_DEFAULT);
    uv_loop_close(&supervisor->loop);
    int exit_code = supervisor->exit_code;
    release(supervisor);
    free(supervisor);
    return exit_code;
}
