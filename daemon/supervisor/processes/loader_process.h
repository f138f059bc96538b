// Loader processes: started by fork and exec of the same program, watched, replaced.
#ifndef FEEDD_DAEMON_SUPERVISOR_PROCESSES_LOADER_PROCESS_H
#define FEEDD_DAEMON_SUPERVISOR_PROCESSES_LOADER_PROCESS_H

#include "base/error.h"
#include "daemon/supervisor/supervisor.h"

// RUNNING -> STOPPING -> EXITED -> GONE, with KILLED in place of STOPPING for one that hangs or does not stop
// in time. EXITED: the process is reaped, but the kernel may still be finishing reads of its io_uring into
// the ring; its chunks are taken back at GONE, when the life pipe has ended too.
enum child_state {
    CHILD_RUNNING,
    CHILD_STOPPING,
    CHILD_KILLED,
    CHILD_EXITED,
    CHILD_GONE,
    CHILD_STATES
};

struct served_feed;

struct child {
    LIST_ENTRY(child) link;
    struct served_feed *feed;
    enum child_state state;
    uint32_t serial; // its owner number in the ring
    uint32_t record; // of the statistics
    uv_process_t process;
    uv_poll_t life;
    int life_fd;
    bool life_ended;
    uint32_t open_handles; // libuv's; freed when 0
    uint64_t started_ns;
    uint64_t stopping_since_ns;
};

int child_spawn(struct served_feed *feed, struct error *error);

// Asks it to end; child_kill does not ask.
void child_stop(struct child *child);
void child_kill(struct child *child);

// Goes on with one that has exited, when its reads are over and its chunks can be queued again.
void child_finish(struct child *child);

const char *child_state_name(enum child_state state);

#endif
