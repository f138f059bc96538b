#include "daemon/supervisor/processes/process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/states.h"
#include "base/time.h"
#include "daemon/supervisor/processes/spawn.h"
#include "shm/stats.h"

static const struct state states[] = {
    [PROCESS_RUNNING] = {"running", STATE(PROCESS_STOPPING) | STATE(PROCESS_KILLED) | STATE(PROCESS_EXITED)},
    [PROCESS_STOPPING] = {"stopping", STATE(PROCESS_KILLED) | STATE(PROCESS_EXITED)},
    [PROCESS_KILLED] = {"killed", STATE(PROCESS_EXITED)},
    [PROCESS_EXITED] = {"exited", STATE(PROCESS_GONE)},
    [PROCESS_GONE] = {"gone", 0},
};
static const struct state_table table = STATE_TABLE("process", states);

const char *process_state_name(enum process_state state) {
    return state_name(&table, state);
}

static void set_state(struct process *process, enum process_state state) {
    process->state = state_next(&table, process->state, state);
}

// ---- Ending ------------------------------------------------------------------------------------------------

static void close_handles(struct process *process) {
    poll_set_remove(&process->channel);
    close_fd(&process->channel_fd);
    process->closed(process);
}

void process_release(struct process *process) {
    if (process->state != PROCESS_GONE)
        abort(); // nobody would reap it
    close_handles(process);
}

static void settle(struct process *process) {
    if (process->state == PROCESS_EXITED && (process->channel_ended || !process->channel_matters))
        set_state(process, PROCESS_GONE);
    process->changed(process);
}

// waitpid() fails only if the process has been reaped elsewhere; then how it ended is not known.
static void reap(struct process *process) {
    int status = 0;
    pid_t pid = waitpid(process->pid, &status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno != ECHILD))
        return;
    LIST_REMOVE(process, link);
    process->ended_ns = monotonic_ns();
    if (WIFSIGNALED(status))
        process->exit_signal = WTERMSIG(status);
    else
        process->exit_status = WEXITSTATUS(status);
    set_state(process, PROCESS_EXITED);
    settle(process);
}

// One signal may stand for several processes.
static void on_child(uv_signal_t *handle, int number) {
    struct process_set *set = handle->data;
    struct process *process, *next;
    (void)number;
    LIST_FOREACH_SAFE(process, &set->running, link, next)
        reap(process);
}

int process_set_open(struct process_set *set, uv_loop_t *loop) {
    sigset_t child;
    LIST_INIT(&set->running);
    int err = uv_signal_init(loop, &set->child);
    set->child.data = set;
    if (!err)
        err = uv_signal_start(&set->child, on_child, SIGCHLD);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    if (!err)
        pthread_sigmask(SIG_UNBLOCK, &child, NULL); // what is blocked is inherited, too
    return err;
}

void process_set_close(struct process_set *set) {
    if (set->child.data && !uv_is_closing((uv_handle_t *)&set->child))
        uv_close((uv_handle_t *)&set->child, NULL);
}

static void on_channel(struct poll_entry *entry, uint32_t events) {
    struct process *process = CONTAINER_OF(entry, struct process, channel);
    char unwanted[4096];
    if (process->channel_ready) {
        process->channel_ready(process, events);
        return;
    }
    if (read(process->channel_fd, unwanted, sizeof unwanted) > 0) {
        process_kill(process); // only one that has gone wrong writes there, and it could do so without end
        return;
    }
    // A channel that has ended would be reported again and again.
    process_poll_channel(process, 0);
    process->channel_ended = true;
    settle(process);
}

void process_poll_channel(struct process *process, uint32_t events) {
    if (events)
        poll_set_change(&process->channel, events);
    else
        poll_set_remove(&process->channel); // a channel that has ended is reported whatever is asked for
}

void process_describe_end(const struct process *process, char *text, size_t bytes) {
    double seconds = (double)process_lived_ns(process) / (double)NS_PER_S;
    if (!process->exit_signal && process->exit_status == SPAWN_NO_EXEC)
        snprintf(text, bytes, "could not be executed");
    else if (process->exit_signal)
        snprintf(text, bytes, "was killed by signal %d (%s) after %.1f s", process->exit_signal,
                 strsignal(process->exit_signal), seconds);
    else
        snprintf(text, bytes, "exited with status %d after %.1f s", process->exit_status, seconds);
}

// ---- Signals -----------------------------------------------------------------------------------------------

// Only to a process that has not been reaped: afterwards its number may be another's.
static void send_signal(struct process *process, enum process_state state, int number) {
    set_state(process, state);
    process->signalled_ns = monotonic_ns();
    kill(process->pid, number);
}

void process_stop(struct process *process) {
    if (process_is_reaped(process))
        return;
    process->asked = true;
    if (process->state == PROCESS_RUNNING)
        send_signal(process, PROCESS_STOPPING, SIGTERM);
}

void process_kill(struct process *process) {
    if (process->state == PROCESS_RUNNING || process->state == PROCESS_STOPPING)
        send_signal(process, PROCESS_KILLED, SIGKILL);
}

void process_watch(struct process *process, uint64_t now, uint64_t stop_timeout_ns) {
    if (process->state == PROCESS_STOPPING && now >= process->signalled_ns + stop_timeout_ns)
        process_kill(process);
}

bool process_hangs(const struct process *process, uint64_t now, uint64_t patience_ns) {
    return process->state == PROCESS_KILLED && now >= process->signalled_ns + patience_ns;
}

bool process_lingers(const struct process *process, uint64_t now, uint64_t patience_ns) {
    return process_hangs(process, now, patience_ns) ||
           (process->state == PROCESS_EXITED && now >= process->ended_ns + patience_ns);
}

// ---- Silence -----------------------------------------------------------------------------------------------

void process_excuse(struct process *process, const _Atomic uint64_t *heartbeat_ns, uint64_t from_ns,
                    uint64_t to_ns) {
    const uint64_t beat_ns = to_ns - stats_silent_ns(heartbeat_ns, process->started_ns, to_ns);
    if (beat_ns >= process->woke_ns)
        process->stood_still_ns = 0;
    process->stood_still_ns += to_ns - from_ns;
    process->woke_ns = to_ns;
}

uint64_t process_silent_ns(const struct process *process, const _Atomic uint64_t *heartbeat_ns,
                           uint64_t now) {
    const uint64_t silent_ns = stats_silent_ns(heartbeat_ns, process->started_ns, now);
    const bool since_then = now - silent_ns >= process->woke_ns;
    return since_then ? silent_ns : silent_ns - min_u64(silent_ns, process->stood_still_ns);
}

// ---- Starting ----------------------------------------------------------------------------------------------

static int spawn(struct process *process, const struct process_start *start) {
    // The child moves descriptors that are in each other's way, in its copy of this array.
    AUTO_FREE int *fds = calloc(start->fd_count, sizeof *fds);
    if (!fds)
        return -ENOMEM;
    memcpy(fds, start->fds, start->fd_count * sizeof *fds);
    const struct spawn options = {.arguments = start->arguments, .fds = fds, .fd_count = start->fd_count};
    int err = spawn_self(&options, &process->pid);
    if (!err)
        LIST_INSERT_HEAD(&start->processes->running, process, link);
    return err;
}

static int open_handles(struct process *process, const struct process_start *start, struct error *error) {
    int flags = fcntl(process->channel_fd, F_GETFL);
    int err = fcntl(process->channel_fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
    if (!err)
        err = poll_set_add(start->poll_set, &process->channel, process->channel_fd, EPOLLIN, on_channel);
    if (err)
        return error_set(error, err, "cannot watch the channel of a %s: %s", start->what, strerror(-err));
    err = spawn(process, start);
    return err ? error_set(error, err, "cannot start a %s: %s", start->what, strerror(-err)) : 0;
}

int process_start(struct process *process, const struct process_start *start, struct error *error) {
    process->state = PROCESS_RUNNING;
    process->owner = start->owner;
    process->changed = start->changed;
    process->channel_fd = start->channel;
    process->channel_ready = start->channel_ready;
    process->channel_matters = !start->channel_ready;
    process->closed = start->closed;
    process->started_ns = monotonic_ns();
    int err = open_handles(process, start, error);
    if (err) {
        close_handles(process);
        return err;
    }
    return 0;
}

void process_hand_over(struct process *process, void *owner, void (*changed)(struct process *process)) {
    process->owner = owner;
    process->changed = changed;
    process->started_ns = monotonic_ns();
}
