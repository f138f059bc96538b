// The supervisor's state. One thread, one libuv loop; every struct here belongs to it.
//
//   supervisor.c  start, tick, stop            listen.c       the socket, its lock, accepting
//   session.c     one client's connection      session_ops.c  what each message does
//   attach.c      from options to a feed       feed_create.c  a feed's ring, made off the loop
//   feed.c        one feed: what moves in it   child.c        its loader processes
//   device.c      a GPU in use                 transfer_process.c  its transfer process
//   pool.c        one feed's batches on a GPU  pool_create.c  making it
//   delivery.c    batches, slots, consumers, with delivery_join.c, delivery_window.c, delivery_tap.c; pure
//   moderation.c  how often it wakes
//   watch.c       heartbeats, lag, time limits reload.c       configuration and datasets
//   query.c       answers for feedctl          notify.c       systemd
#ifndef FEEDD_DAEMON_SUPERVISOR_SUPERVISOR_H
#define FEEDD_DAEMON_SUPERVISOR_SUPERVISOR_H

#include <sys/queue.h>
#include <uv.h>

#include "base/error.h"
#include "base/scope.h"
#include "daemon/config/config.h"
#include "daemon/log.h"
#include "daemon/source/dataset.h"
#include "daemon/supervisor/moderation.h"
#include "proto/codec.h"
#include "shm/stats.h"

#define SUPERVISOR_TICK_MS 250u
#define LAST_ERRORS        8u

enum supervisor_state {
    SUPERVISOR_RUNNING,
    SUPERVISOR_DRAINING,
    SUPERVISOR_STOPPING,
    SUPERVISOR_STOPPED
};

struct supervisor {
    uv_loop_t loop;
    enum supervisor_state state;
    int exit_code;
    struct config *config;
    struct dataset **datasets; // what can be attached to now
    size_t dataset_count;

    char socket_path[256];
    char stats_path[256];
    int listen_fd;
    bool listen_inherited; // from systemd: not ours to unlink
    int lock_fd;
    gid_t group; // socket_group, or -1
    uv_poll_t listener;

    struct stats_region *stats;
    int stats_fd;

    uv_signal_t on_term, on_interrupt, on_hangup;
    uv_poll_t owner; // standard input, with --until-eof
    uv_timer_t tick;
    struct moderation moderation;
    uint64_t started_ns;
    uint64_t stop_deadline_ns;
    uint64_t watchdog_ns; // systemd wants to hear of us this often; 0: never
    uint64_t watchdog_next_ns;

    LIST_HEAD(, session) sessions;
    LIST_HEAD(, served_feed) feeds;
    LIST_HEAD(, device) devices;
    uint32_t session_count;
    uint32_t feed_count;
    uint64_t ring_bytes; // of all feeds but those that are closing
    uint64_t next_session, next_feed;
    uint32_t next_pool;
    struct codec_arena arena; // messages are handled one at a time
    bool reloading;

    struct {
        uint64_t at_ns;
        char text[256];
    } last_errors[LAST_ERRORS];
    uint32_t error_count; // ever; the last LAST_ERRORS are kept
};

// Runs the daemon until it is told to stop, or with until_eof until standard input ends; takes over `config`. Returns
// the process's exit status.
int supervisor_run(struct config *config, bool until_eof);

// Begins an orderly stop: no new sessions, clients are told, loaders end, then the loop.
void supervisor_stop(struct supervisor *supervisor);

// Stops once the last consumer has left; refuses new ones from now on.
void supervisor_drain(struct supervisor *supervisor);

// Called whenever a session, a feed or a device is gone: ends the loop when a stop is complete.
void supervisor_check_done(struct supervisor *supervisor);

// Logs an error and keeps it for `feedctl status`.
void supervisor_report(struct supervisor *supervisor, const char *format, ...) PRINTF_LIKE(2, 3);

// listen.c
int listen_open(struct supervisor *supervisor, struct error *error);
int listen_start(struct supervisor *supervisor);
void listen_close(struct supervisor *supervisor);

// notify.c
void notify_ready(const struct supervisor *supervisor);
void notify_reloading(void);
void notify_stopping(void);
void notify_watchdog(void);
uint64_t notify_watchdog_interval_ns(void);
int notify_listen_fd(void); // a socket passed by the service manager, or -1

// watch.c
void watch_tick(struct supervisor *supervisor);

// reload.c
struct session;
// Reads the configuration again and opens its datasets off the loop. `asker`, which may be NULL, is told how it went.
void reload_start(struct supervisor *supervisor, uint64_t asker);
int datasets_open(const struct config *config, struct dataset ***datasets, struct error *error);
void datasets_close(struct dataset **datasets, size_t count);
struct dataset *datasets_find(const struct supervisor *supervisor, const char *name);

// query.c
void query_answer(struct session *session, const Feedd__Query *query);

#endif
