#include "daemon/supervisor/run.h"

#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/confine/confine.h"
#include "daemon/supervisor/clients/brought.h"
#include "daemon/supervisor/clients/listen.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/bad_samples.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/feed_loaders.h"
#include "daemon/supervisor/feeds/kept.h"
#include "daemon/supervisor/feeds/prepared_loaders.h"
#include "daemon/supervisor/feeds/prepared_ring.h"
#include "daemon/supervisor/feeds/room.h"
#include "daemon/supervisor/feeds/sample_caches.h"
#include "daemon/supervisor/indexing.h"
#include "daemon/supervisor/moderation.h"
#include "daemon/supervisor/notify.h"
#include "daemon/supervisor/reload.h"
#include "daemon/supervisor/thread_pool.h"
#include "daemon/supervisor/turn.h"
#include "daemon/supervisor/watch.h"
#include "gpu/gpu.h"
#include "shm/stats_read.h"

#define TICK_MS 250u

// The supervisor with the loop's own events.
struct runner {
    struct supervisor supervisor;
    uv_signal_t on_term, on_interrupt, on_hangup;
    uv_timer_t tick;
    uv_prepare_t before_wait;
    uv_check_t after_wait;
    uv_idle_t again;         // active while the next turn is to follow without a wait
    struct poll_entry owner; // standard input, with --until-eof
    uint64_t watchdog_ns;    // systemd expects a sign of life this often; 0: never
    uint64_t watchdog_next_ns;
    bool stop_wanted;
    char stop_reason[64];
};

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

static void end_loop(struct runner *runner) {
    supervisor_set_state(&runner->supervisor, SUPERVISOR_STOPPED);
    // Without its watcher, a signal would have its default effect and end us before everything is cleaned up.
    mask_watched_signals(SIG_BLOCK);
    close_if_open((uv_handle_t *)&runner->on_term);
    close_if_open((uv_handle_t *)&runner->on_interrupt);
    close_if_open((uv_handle_t *)&runner->on_hangup);
    close_if_open((uv_handle_t *)&runner->tick);
    close_if_open((uv_handle_t *)&runner->before_wait);
    close_if_open((uv_handle_t *)&runner->after_wait);
    close_if_open((uv_handle_t *)&runner->again);
    listen_stop(&runner->supervisor);
    poll_set_remove(&runner->owner);
    indexing_leave(&runner->supervisor);
    reload_leave(&runner->supervisor);
    sample_caches_leave(&runner->supervisor);
    process_set_close(&runner->supervisor.processes);
    poll_set_close(&runner->supervisor.poll_set);
}

// The first reason counts.
static void want_stop(struct runner *runner, const char *format, ...) PRINTF_LIKE(2, 3);
static void want_stop(struct runner *runner, const char *format, ...) {
    va_list arguments;
    if (runner->stop_wanted)
        return;
    runner->stop_wanted = true;
    va_start(arguments, format);
    vsnprintf(runner->stop_reason, sizeof runner->stop_reason, format, arguments);
    va_end(arguments);
}

static void begin_stop(struct runner *runner) {
    struct supervisor *supervisor = &runner->supervisor;
    struct session *session;
    struct served_feed *feed;
    struct device *device;
    log_info("stopping: %s", runner->stop_reason);
    notify_stopping();
    supervisor_set_state(supervisor, SUPERVISOR_STOPPING);
    supervisor->stop_deadline_ns = monotonic_ns() + supervisor->config->stop_timeout_s * NS_PER_S;
    listen_stop(supervisor);
    TAILQ_FOREACH(session, &supervisor->sessions, link)
        session_fail(session, -ESHUTDOWN, "feedd is stopping");
    LIST_FOREACH(feed, &supervisor->feeds, link)
        served_feed_close(feed);
    LIST_FOREACH(device, &supervisor->devices, link)
        device_stop(device, false);
    prepared_loaders_end(supervisor, false);
    prepared_ring_give_up(supervisor);
    supervisor->again = true;
}

static bool is_in_use(const struct supervisor *supervisor) {
    const struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        if (served_feed_in_use(feed))
            return true;
    return false;
}

static void stop_if_due(struct runner *runner) {
    struct supervisor *supervisor = &runner->supervisor;
    if (supervisor->state == SUPERVISOR_DRAINING && !is_in_use(supervisor))
        want_stop(runner, "the last consumer has left");
    if (runner->stop_wanted && supervisor->state < SUPERVISOR_STOPPING)
        begin_stop(runner);
    if (supervisor->state == SUPERVISOR_STOPPING && LIST_EMPTY(&supervisor->feeds) &&
        TAILQ_EMPTY(&supervisor->sessions) && LIST_EMPTY(&supervisor->devices) &&
        LIST_EMPTY(&supervisor->prepared.list) && !supervisor->prepared.ring)
        end_loop(runner);
}

static void enforce_stop(struct supervisor *supervisor, uint64_t now) {
    struct served_feed *feed;
    struct device *device;
    if (supervisor->state != SUPERVISOR_STOPPING || now < supervisor->stop_deadline_ns)
        return;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        feed_loaders_end(feed, true);
    LIST_FOREACH(device, &supervisor->devices, link)
        device_stop(device, true);
    prepared_loaders_end(supervisor, true);
    if (now < supervisor->stop_deadline_ns + supervisor->config->stop_timeout_s * NS_PER_S)
        return;
    // The kernel keeps them, and nobody can change that. The status is still 0: systemd restarts a
    // service that has failed, and a daemon that stops on request has not.
    LIST_FOREACH(feed, &supervisor->feeds, link)
        feed_loaders_report_left(feed, now);
    LIST_FOREACH(device, &supervisor->devices, link)
        device_report_left(device);
    uv_stop(&supervisor->loop);
}

// ---- Events ------------------------------------------------------------------------------------------------

static void on_tick(uv_timer_t *timer) {
    struct runner *runner = timer->data;
    struct supervisor *supervisor = &runner->supervisor;
    struct stats_header *header = &supervisor->stats->header;
    struct turn_part before = turn_clock_enter(&supervisor->clock, TURN_TICK, 0);
    uint64_t now = monotonic_ns();
    atomic_store_explicit(&header->heartbeat_ns, now, memory_order_relaxed);
    atomic_store_explicit(&header->sessions, supervisor->session_count, memory_order_relaxed);
    atomic_store_explicit(&header->ring_bytes, room_held_bytes(supervisor), memory_order_relaxed);
    notify_retry();
    if (runner->watchdog_ns && now >= runner->watchdog_next_ns && notify_watchdog())
        runner->watchdog_next_ns = now + runner->watchdog_ns;
    watch_tick(supervisor, now);
    enforce_stop(supervisor, now);
    listen_resume(supervisor); // if it had to pause
    turn_clock_leave(&supervisor->clock, before);
}

static void on_stop_signal(uv_signal_t *handle, int number) {
    struct runner *runner = handle->data;
    want_stop(runner, "got signal %d (%s)", number, strsignal(number));
}

static void on_reload_signal(uv_signal_t *handle, int number) {
    struct runner *runner = handle->data;
    (void)number;
    runner->supervisor.reload_wanted = true; // also during a reload, which may have read the old text
}

// Standard input is a pipe whose other end only our owner has, so it ends with the owner, however the owner ends.
static void on_owner(struct poll_entry *entry, uint32_t events) {
    struct runner *runner = CONTAINER_OF(entry, struct runner, owner);
    char unwanted[256];
    (void)events;
    if (read(STDIN_FILENO, unwanted, sizeof unwanted) > 0)
        return;
    poll_set_remove(entry); // the end of a pipe is reported whether asked for or not
    want_stop(runner, "standard input has ended");
}

static void on_again(uv_idle_t *idle) {
    (void)idle; // its being active keeps the loop from waiting
}

static void on_before_wait(uv_prepare_t *prepare) {
    struct runner *runner = prepare->data;
    struct supervisor *supervisor = &runner->supervisor;
    turn_run(supervisor);
    stop_if_due(runner);
    if (supervisor->state == SUPERVISOR_STOPPED)
        return;
    turn_clock_end(&supervisor->clock);
    if (supervisor->again) {
        uv_idle_start(&runner->again, on_again);
    } else {
        uv_idle_stop(&runner->again);
        moderation_nap(supervisor);
    }
    turn_clock_begin(&supervisor->clock);
}

static void on_after_wait(uv_check_t *check) {
    struct runner *runner = check->data;
    moderation_woke(&runner->supervisor);
}

// ---- Starting ----------------------------------------------------------------------------------------------

static int watch_owner(struct runner *runner, struct error *error) {
    int err = poll_set_add(&runner->supervisor.poll_set, &runner->owner, STDIN_FILENO, EPOLLIN, on_owner);
    return err ? error_set(error, err, "--until-eof cannot watch standard input, which is not a pipe: %s",
                           strerror(-err))
               : 0;
}

static int start_threads(struct supervisor *supervisor, struct error *error) {
    closer_prepare(supervisor->own_closer);
    mask_watched_signals(SIG_BLOCK); // they are this thread's alone: see end_loop
    int err = thread_pool_start(&supervisor->loop, error);
    mask_watched_signals(SIG_UNBLOCK);
    return err;
}

static void start_handles(struct runner *runner) {
    uv_loop_t *loop = &runner->supervisor.loop;
    uv_signal_init(loop, &runner->on_term);
    uv_signal_init(loop, &runner->on_interrupt);
    uv_signal_init(loop, &runner->on_hangup);
    uv_timer_init(loop, &runner->tick);
    uv_prepare_init(loop, &runner->before_wait);
    uv_check_init(loop, &runner->after_wait);
    uv_idle_init(loop, &runner->again);
    runner->on_term.data = runner->on_interrupt.data = runner->on_hangup.data = runner;
    runner->tick.data = runner->before_wait.data = runner->after_wait.data = runner->again.data = runner;
    uv_signal_start(&runner->on_term, on_stop_signal, SIGTERM);
    uv_signal_start(&runner->on_interrupt, on_stop_signal, SIGINT);
    uv_signal_start(&runner->on_hangup, on_reload_signal, SIGHUP);
    mask_watched_signals(SIG_UNBLOCK); // see main.c
    uv_timer_start(&runner->tick, on_tick, TICK_MS, TICK_MS);
    uv_prepare_start(&runner->before_wait, on_before_wait);
    uv_check_start(&runner->after_wait, on_after_wait);
}

static int open_stats(struct supervisor *supervisor, struct error *error) {
    int err = stats_path(supervisor->socket_path, supervisor->stats_path, sizeof supervisor->stats_path);
    if (err)
        return error_set(error, err, "the socket path %s is too long", supervisor->socket_path);
    // Whoever may connect may read the statistics.
    uint32_t mode = supervisor->config->socket_mode & 0444;
    supervisor->stats_private = !(mode & 0044);
    err = stats_create(supervisor->stats_path, 0600 | mode, supervisor->group, &supervisor->stats,
                       &supervisor->stats_fd, error);
    if (!err)
        supervisor->stats->header.ring_memory = supervisor->config->ring_memory;
    return err;
}

static int start(struct runner *runner, bool until_eof, struct error *error) {
    struct supervisor *supervisor = &runner->supervisor;
    int err = datasets_open_known(supervisor->config, &supervisor->datasets, error);
    if (err)
        return err;
    supervisor->dataset_count = supervisor->config->dataset_count;
    if (indexing_open(supervisor) < 0)
        return error_set(error, -ENOMEM, "out of memory");
    supervisor->own_closer = closer_open();
    supervisor->gpu_closer = closer_open();
    if (!supervisor->own_closer || !supervisor->gpu_closer)
        return error_set(error, -ENOMEM, "out of memory");
    // From here on there is something to clean up, so signals must not simply end us.
    start_handles(runner);
    err = process_set_open(&supervisor->processes, &supervisor->loop);
    if (err)
        return error_set(error, err, "cannot watch child processes: %s", uv_strerror(err));
    err = poll_set_open(&supervisor->poll_set, &supervisor->loop);
    if (err)
        return error_set(error, err, "cannot create an epoll descriptor: %s", strerror(-err));
    err = until_eof ? watch_owner(runner, error) : 0;
    if (!err)
        err = listen_open(supervisor, error);
    if (!err)
        err = open_stats(supervisor, error);
    if (!err)
        err = start_threads(supervisor, error);
    if (err)
        return err;
    moderation_start(supervisor);
    err = listen_start(supervisor);
    supervisor->listening_ns = monotonic_ns();
    return err ? error_set(error, err, "cannot watch the socket: %s", strerror(-err)) : 0;
}

static void release(struct supervisor *supervisor) {
    if (supervisor->stats) {
        atomic_store_explicit(&supervisor->stats->header.stopped, 1, memory_order_relaxed);
        if (unlink(supervisor->stats_path) < 0 && errno != ENOENT)
            log_warning("cannot remove the statistics %s: %m", supervisor->stats_path);
        stats_close(supervisor->stats);
    }
    close_fd(&supervisor->stats_fd);
    listen_close(supervisor);
    brought_leave(supervisor);
    datasets_close(supervisor->datasets, supervisor->dataset_count, supervisor->own_closer);
    kept_leave(supervisor);
    if (supervisor->own_closer)
        closer_leave(supervisor->own_closer);
    if (supervisor->gpu_closer)
        closer_leave(supervisor->gpu_closer);
    users_forget(supervisor, UINT64_MAX);
    codec_arena_free(&supervisor->arena);
    indexing_close(supervisor);
    bad_samples_forget(supervisor, true);
    config_free(supervisor->config);
}

// Its children will miss the same.
static void say_confinement(const struct supervisor *supervisor) {
    char missing[CONFINE_TEXT];
    if (*confine_note())
        log_info("confinement: %s", confine_note());
    if (confine_describe_missing(supervisor->confined, missing))
        log_warning("confinement: the kernel refuses %s; feedctl status shows what is active", missing);
}

static void say_hello(const struct supervisor *supervisor) {
    char gpus[192];
    log_info("version " FEEDD_VERSION " serves %zu dataset%s on %s", supervisor->dataset_count,
             supervisor->dataset_count == 1 ? "" : "s", supervisor->socket_path);
    gpu_support((uint32_t)supervisor->config->simulated_gpus, gpus, sizeof gpus);
    log_info("delivery to GPUs: %s", gpus);
    say_confinement(supervisor);
    notify_ready(supervisor->dataset_count, supervisor->socket_path);
}

int supervisor_run(struct config *config, bool until_eof) {
    static struct runner *runner; // static: what is left of feeds at the end is no leak
    runner = calloc(1, sizeof *runner);
    struct error error = {0};
    if (!runner || uv_loop_init(&runner->supervisor.loop) != 0 ||
        turn_clock_init(&runner->supervisor.clock, &runner->supervisor.loop) != 0) {
        log_error("out of memory");
        free(runner);
        return EXIT_FAILURE;
    }
    struct supervisor *supervisor = &runner->supervisor;
    mallopt(M_ARENA_MAX, 1); // or each thread that reloads gets memory of its own to keep
    supervisor_init(supervisor, config);
    confine_set(config->confine);
    supervisor->confined = confine_supervisor();
    runner->watchdog_ns = notify_watchdog_interval_ns();
    if (start(runner, until_eof, &error) < 0) {
        log_error("%s", error.text);
        supervisor->exit_code = EXIT_FAILURE;
        end_loop(runner);
    } else {
        say_hello(supervisor);
    }
    turn_clock_begin(&supervisor->clock);
    uv_run(&supervisor->loop, UV_RUN_DEFAULT);
    uv_loop_close(&supervisor->loop);
    int exit_code = supervisor->exit_code;
    release(supervisor);
    if (supervisor->state == SUPERVISOR_STOPPED) // else feeds are left, with children that do not end
        free(runner);
    return exit_code;
}
