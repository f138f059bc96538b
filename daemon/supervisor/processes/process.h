// One child process of the supervisor: spawned, watched, signalled and reaped here and nowhere else.
//
// Callbacks from the loop only change the process's own state and then call `changed`, which marks its owner for the
// next turn. The owner later reads `state`, the reports and the end, and acts on them.
#ifndef FEEDD_DAEMON_SUPERVISOR_PROCESSES_PROCESS_H
#define FEEDD_DAEMON_SUPERVISOR_PROCESSES_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"
#include "base/queue.h"
#include "daemon/supervisor/poll_set.h"

enum process_state {
    PROCESS_RUNNING,
    PROCESS_STOPPING, // asked to end
    PROCESS_KILLED,   // not reaped yet; a driver that hangs can hold it here
    PROCESS_EXITED,   // reaped, but the kernel may still be finishing reads that it submitted
    PROCESS_GONE      // nothing of it runs any more; its owner releases it
};

struct process {
    enum process_state state;
    void *owner; // its owner's, for `changed`
    void (*changed)(struct process *process);

    bool asked;       // to end, by process_stop, before it did: its end is no surprise
    bool end_counted; // the owner's: it has seen EXITED or GONE and drawn its conclusions
    int exit_status;
    int exit_signal; // 0: it exited by itself
    uint64_t started_ns;
    uint64_t signalled_ns; // last asked to end, or killed
    uint64_t ended_ns;     // reaped
    // The machine stood still until woke_ns, and, since the last heartbeat before that, for so long.
    uint64_t woke_ns, stood_still_ns;

    // Private to process.c, and to the file that knows what the channel carries.
    LIST_ENTRY(process) link; // of the set, until it has been reaped
    pid_t pid;
    struct poll_entry channel;
    int channel_fd;
    bool channel_matters; // GONE waits for the end of the channel
    bool channel_ended;
    void (*channel_ready)(struct process *process, uint32_t events);
    void (*closed)(struct process *process);
};

// All processes that have not been reaped. Works on every kernel, unlike descriptors of processes.
struct process_set {
    LIST_HEAD(, process) running;
    uv_signal_t child;
};

// A negative errno of libuv's. Afterwards SIGCHLD is handled, whatever was inherited.
int process_set_open(struct process_set *set, uv_loop_t *loop);
// The loop must run once more.
void process_set_close(struct process_set *set);

struct process_start {
    struct process_set *processes;
    struct poll_set *poll_set;
    const char *what;       // "loader process", for messages
    char *const *arguments; // ends with NULL
    const int *fds;         // fds[n] becomes descriptor n of the process; those below 0 become /dev/null
    uint32_t fd_count;
    int channel; // a pipe or socket whose other end the process has; taken over
    // Called when the channel is ready; NULL: it carries nothing, and its end says that the process and every read it
    // submitted are over. GONE waits for that end.
    void (*channel_ready)(struct process *process, uint32_t events);
    // Marks the owner. Called after every change of state and by channel_ready; never during a call of the owner's.
    void (*changed)(struct process *process);
    // Frees the memory that the process lies in.
    void (*closed)(struct process *process);
    void *owner;
};

// Spawns this program again, without waiting for it. On failure nothing runs and the caller forgets `process`, which
// `closed` frees.
int process_start(struct process *process, const struct process_start *start, struct error *error);

// One that runs and has waited for work gets another owner, as if it were started now.
void process_hand_over(struct process *process, void *owner, void (*changed)(struct process *process));

// Asks it to end; process_kill does not ask. Neither does anything to a process that has been reaped.
void process_stop(struct process *process);
void process_kill(struct process *process);

// Kills a process that was asked to end `stop_timeout_ns` ago and still runs.
void process_watch(struct process *process, uint64_t now, uint64_t stop_timeout_ns);

// Killed that long ago and not reaped: the kernel cannot end it.
bool process_hangs(const struct process *process, uint64_t now, uint64_t patience_ns);

// Killed, or reaped, that long ago and not GONE: something of it still runs in the kernel.
bool process_lingers(const struct process *process, uint64_t now, uint64_t patience_ns);

// The machine has stood still: from now on, that does not count as silence.
void process_excuse(struct process *process, const _Atomic uint64_t *heartbeat_ns, uint64_t from_ns,
                    uint64_t to_ns);

// How long it has not moved, as its heartbeat says.
uint64_t process_silent_ns(const struct process *process, const _Atomic uint64_t *heartbeat_ns, uint64_t now);

// Gives back a process that is GONE. The owner must not touch it again.
void process_release(struct process *process);

// Which events of the channel are wanted, of epoll(7); 0: none any more. For channel_ready's file.
void process_poll_channel(struct process *process, uint32_t events);

// "was killed by signal 9 (Killed) after 1.2 s", for a process that has been reaped.
void process_describe_end(const struct process *process, char *text, size_t bytes);

const char *process_state_name(enum process_state state);

static inline bool process_is_reaped(const struct process *process) {
    return process->state >= PROCESS_EXITED;
}

static inline pid_t process_pid(const struct process *process) {
    return process->pid;
}

static inline uint64_t process_lived_ns(const struct process *process) {
    return process->ended_ns - process->started_ns;
}

#endif
