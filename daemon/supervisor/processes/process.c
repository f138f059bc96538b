#include "daemon/supervisor/processes/process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/states.h"
#include "base/time.h"

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

static void on_handle_closed(uv_handle_t *handle) {
    struct process *process = handle->data;
    process->closed(process);
}

static void close_handles(struct process *process) {
    poll_set_remove(&process->channel);
    close_fd(&process->channel_fd);
    if (process->handle.data)
        uv_close((uv_handle_t *)&process->handle, on_handle_closed);
    else
        process->closed(process);
}

void process_release(struct process *process) {
    if (process->state != PROCESS_GONE)
        abort(); // the loop would call back into freed memory
    close_handles(process);
}

static void settle(struct process *process) {
    if (process->state == PROCESS_EXITED && (process->channel_ended || !process->channel_matters))
        set_state(process, PROCESS_GONE);
    process->changed(process);
}

static void on_exit_seen(uv_process_t *handle, int64_t exit_status, int exit_signal) {
    struct process *process = handle->data;
    process->ended_ns = monotonic_ns();
    process->exit_status = (int)exit_status;
    process->exit_signal = exit_signal;
    set_state(process, PROCESS_EXITED);
    settle(process);
}

static void on_channel(struct poll_entry *entry, uint32_t events) {
    struct process *process = CONTAINER_OF(entry, struct process, channel);
    char byte;
    if (process->channel_ready) {
        process->channel_ready(process, events);
        return;
    }
    if (read(process->channel_fd, &byte, 1) > 0)
        return;
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
    if (process->exit_signal)
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
    uv_process_kill(&process->handle, number);
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

// ---- Starting ----------------------------------------------------------------------------------------------

static int spawn(struct process *process, const struct process_start *start, struct error *error) {
    AUTO_FREE uv_stdio_container_t *stdio = calloc(start->fd_count, sizeof *stdio);
    if (!stdio)
        return error_set(error, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < start->fd_count; i++) {
        stdio[i].flags = start->fds[i] < 0 ? UV_IGNORE : UV_INHERIT_FD;
        stdio[i].data.fd = start->fds[i];
    }
    uv_process_options_t options = {
        .exit_cb = on_exit_seen,
        .file = "/proc/self/exe",
        .args = (char **)start->arguments,
        .stdio = stdio,
        .stdio_count = (int)start->fd_count,
    };
    process->handle.data = process; // initialised by uv_spawn even when that fails
    int err = uv_spawn(start->loop, &process->handle, &options);
    return err ? error_set(error, err, "cannot start a %s: %s", start->what, uv_strerror(err)) : 0;
}

static int open_handles(struct process *process, const struct process_start *start, struct error *error) {
    int flags = fcntl(process->channel_fd, F_GETFL);
    int err = fcntl(process->channel_fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
    if (!err)
        err = poll_set_add(start->poll_set, &process->channel, process->channel_fd, EPOLLIN, on_channel);
    if (err)
        return error_set(error, err, "cannot watch the channel of a %s: %s", start->what, strerror(-err));
    return spawn(process, start, error);
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
