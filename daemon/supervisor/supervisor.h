// The supervisor's state, which everything in this folder uses. There is one thread with one libuv loop, and every
// structure here belongs to it.
//
// The folders, from the bottom up; each uses only those above it in this list:
//   delivery/   which batch goes into which slot, and who gets it; pure
//   processes/  loaders and transfer processes: started, watched, replaced
//   feeds/      feeds, their pools on GPUs, the GPUs
//   clients/    connections, messages, questions
// and beside this file:
//   turn.c      acts, once per turn of the loop, on what events have marked
//   turn_clock.c  how long the turns take, and because of what
//   run.c       start, signals, stop           watch.c     timeouts
//   reload.c    a new configuration            datasets.c  the datasets being served
//   indexing.c  builds indices of datasets
//   moderation.c  how often the loop wakes     notify.c    systemd
//   poll_set.c  descriptors waited for         mark.h      marks
//   closer.c    closes descriptors in a thread
#ifndef FEEDD_DAEMON_SUPERVISOR_SUPERVISOR_H
#define FEEDD_DAEMON_SUPERVISOR_SUPERVISOR_H

#include <uv.h>

#include "base/error.h"
#include "daemon/config/config.h"
#include "daemon/dataset/dataset.h"
#include "daemon/log.h"
#include "daemon/supervisor/mark.h"
#include "daemon/supervisor/poll_set.h"
#include "daemon/supervisor/processes/process.h"
#include "daemon/supervisor/processes/respawn.h"
#include "daemon/supervisor/turn_clock.h"
#include "proto/codec.h"
#include "shm/stats.h"
#include "shm/trace.h"

#define LAST_ERRORS 8u

enum supervisor_state {
    SUPERVISOR_RUNNING,
    SUPERVISOR_DRAINING, // no new consumers; stops when the last one has left
    SUPERVISOR_STOPPING, // clients are told, children end
    SUPERVISOR_STOPPED   // the loop ends
};

struct supervisor {
    uv_loop_t loop;
    struct poll_set poll_set;
    struct process_set processes;
    struct turn_clock clock;
    enum supervisor_state state;
    int exit_code;
    struct config *config;
    struct dataset **datasets; // what can be attached to now; NULL: not until its index is built
    size_t dataset_count;
    uint64_t started_ns;
    uint64_t listening_ns; // since when clients can attach; started_ns until then
    uint64_t stop_deadline_ns;
    uint64_t ticked_ns; // the last tick
    bool stood_still;   // it came so late that what has not happened yet proves nothing
    struct {
        uint64_t woke_ns;
        uint32_t processors; // that feedd may run on
    } moderation;

    char socket_path[256];
    char stats_path[256];
    int listen_fd;
    bool listen_inherited; // from systemd: not ours to unlink
    int lock_fd;
    gid_t group; // socket_group, or -1
    struct poll_entry listener;
    struct closer *closer;     // of descriptors that clients send
    struct closer *own_closer; // of rings and datasets
    struct closer *gpu_closer; // of what transfer processes send

    struct stats_region *stats;
    int stats_fd;
    _Atomic uint32_t *trace_on; // the switches of the timeline, once one has been asked for
    struct trace_writer trace;  // ... and the supervisor's own ring
    uint32_t tracers;           // sessions that want it
    uint64_t confined;          // what it has given up itself: a word of shm/confinement.h
    bool stats_private;         // only root and the daemon's own user can read them

    // Marked objects have changed, and the turn acts on them.
    struct mark_queue marked_sessions, marked_feeds, marked_devices;
    struct mark_queue unsent_sessions; // have something to send
    struct mark_queue closed_sessions; // to be freed
    bool again;                        // the next turn follows at once: it has work left over
    uint32_t starts_left;              // processes that this turn may still start
    uint32_t pieces_left;              // of views, that this turn may still take

    TAILQ_HEAD(, session) sessions; // the oldest first, which also acts first
    LIST_HEAD(, user) users;
    LIST_HEAD(, served_feed) feeds;
    LIST_HEAD(, kept_ring) kept_rings; // of feeds that are gone
    struct {
        LIST_HEAD(, loader_process) list; // that wait for a feed, or end without one
        struct respawn respawn;
        uint64_t taken_ns;          // when a feed last wanted one
        bool changed;               // one of them, or the ring: the turn acts
        struct prepared_ring *ring; // memory for the next feed; NULL: there is none
        uint64_t next_ring;
        uint64_t tried_ns; // when one was last made or given up
    } prepared;
    LIST_HEAD(, user_cache) caches; // of decoded images
    TAILQ_HEAD(, brought) brought;  // views that clients have brought
    LIST_HEAD(, device) devices;
    LIST_HEAD(, bad_samples) bad_samples; // of datasets that have any
    uint32_t session_count;
    uint32_t feed_count;
    uint64_t next_session, next_feed;
    uint32_t next_pool;
    struct codec_arena arena;  // messages are handled one at a time
    struct indexing *indexing; // of datasets, or NULL: all of them are there
    struct reload *reload;     // in progress, or NULL
    bool reload_given_up;      // its outcome is no longer wanted, but its thread has not ended
    bool reload_wanted;        // the turn begins one
    uint64_t reload_asker;     // the session that waits for its outcome, or 0

    struct {
        uint64_t at_ns;
        char text[256];
    } last_errors[LAST_ERRORS];
    uint32_t error_count; // in total; the last LAST_ERRORS are kept
};

// Everything that has no memory or descriptors yet. The structure is zeroed.
void supervisor_init(struct supervisor *supervisor, struct config *config);

void supervisor_set_state(struct supervisor *supervisor, enum supervisor_state state);

// Logs an error and keeps it for `feedctl status`.
void supervisor_report(struct supervisor *supervisor, const char *format, ...) PRINTF_LIKE(2, 3);

// Accepts no new consumers from now on; the turn after the last one has left begins the stop.
void supervisor_drain(struct supervisor *supervisor);

#endif
