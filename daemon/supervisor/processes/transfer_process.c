#include "daemon/supervisor/processes/transfer_process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/heritage.h"

#define REPORTS_MOST 64u // at a time; others get their turn before the rest

#define UNSENT_MOST 4096u // requests; beyond them it has hung for long

struct unsent {
    TAILQ_ENTRY(unsent) link;
    struct transfer_request request;
    int fds[CONTROL_MAX_DESCRIPTORS];
    uint32_t count;
};

struct transfer_process {
    struct device *device; // NULL once it has ended
    uv_process_t process;
    uv_poll_t control;
    int socket;
    bool asked_to_end, killed, reaped;
    uint32_t open_handles; // libuv's; freed when 0
    uint64_t started_ns;
    TAILQ_HEAD(, unsent) unsent;
    uint32_t unsent_count;
};

bool transfer_process_killed(const struct transfer_process *process) {
    return process->killed;
}

uint64_t transfer_process_started_ns(const struct transfer_process *process) {
    return process->started_ns;
}

// ---- Sending -----------------------------------------------------------------------------------------------

static void on_control(uv_poll_t *poll, int status, int events);

static void drop_unsent(struct transfer_process *process, struct unsent *unsent) {
    TAILQ_REMOVE(&process->unsent, unsent, link);
    process->unsent_count--;
    while (unsent->count)
        close(unsent->fds[--unsent->count]);
    free(unsent);
}

static void keep_unsent(struct transfer_process *process, const struct transfer_request *request,
                        const int *fds, uint32_t count) {
    struct unsent *unsent = process->unsent_count < UNSENT_MOST ? calloc(1, sizeof *unsent) : NULL;
    if (!unsent) {
        transfer_process_kill(process); // what it does not know would be wrong for ever
        return;
    }
    TAILQ_INSERT_TAIL(&process->unsent, unsent, link);
    process->unsent_count++;
    unsent->request = *request;
    while (unsent->count < count) {
        int copy = fcntl(fds[unsent->count], F_DUPFD_CLOEXEC, 0);
        if (copy < 0) {
            drop_unsent(process, unsent);
            transfer_process_kill(process);
            return;
        }
        unsent->fds[unsent->count++] = copy;
    }
    uv_poll_start(&process->control, UV_READABLE | UV_WRITABLE | UV_DISCONNECT, on_control);
}

static bool take_back(struct transfer_process *process, const struct transfer_request *removal) {
    struct unsent *unsent;
    if (removal->kind != TRANSFER_REMOVE_CONSUMER)
        return false;
    TAILQ_FOREACH(unsent, &process->unsent, link)
        if (unsent->request.kind == TRANSFER_ADD_CONSUMER && unsent->request.pool == removal->pool &&
            unsent->request.consumer == removal->consumer) {
            drop_unsent(process, unsent);
            return true;
        }
    return false;
}

bool transfer_process_send(struct transfer_process *process, const struct transfer_request *request,
                           const int *fds, uint32_t count) {
    if (take_back(process, request))
        return false;
    int err = -EAGAIN;
    if (TAILQ_EMPTY(&process->unsent))
        err = control_send(process->socket, request, sizeof *request, fds, count);
    if (err == -EAGAIN)
        keep_unsent(process, request, fds, count);
    else if (err && err != -EPIPE && err != -ECONNRESET) // those two: its end is about to be seen
        transfer_process_kill(process);
    return true;
}

static void send_unsent(struct transfer_process *process) {
    struct unsent *unsent;
    while ((unsent = TAILQ_FIRST(&process->unsent))) {
        int err = control_send(process->socket, &unsent->request, sizeof unsent->request, unsent->fds,
                               unsent->count);
        if (err == -EAGAIN)
            return;
        drop_unsent(process, unsent);
    }
    uv_poll_start(&process->control, UV_READABLE | UV_DISCONNECT, on_control);
}

// ---- Ending ------------------------------------------------------------------------------------------------

static void on_handle_closed(uv_handle_t *handle) {
    struct transfer_process *process = handle->data;
    if (--process->open_handles)
        return;
    close_fd(&process->socket);
    free(process);
}

static void hear(struct transfer_process *process) {
    struct transfer_report report;
    int fds[CONTROL_MAX_DESCRIPTORS];
    uint32_t count;
    for (uint32_t i = 0; i < REPORTS_MOST && process->device; i++) {
        int got = control_receive(process->socket, &report, sizeof report, fds, &count);
        if (got <= 0) {
            if (got == 0)
                return;
            // Its end comes by on_process_exit; a socket that ended would be reported over and over until then. A
            // report that was lost, for want of descriptors, would be missed for ever: another process reports anew.
            uv_poll_stop(&process->control);
            if (got != -ECONNRESET)
                transfer_process_kill(process);
            return;
        }
        while (count > 1)
            close(fds[--count]);
        device_heard(process->device, &report, count ? fds[0] : -1);
    }
}

static void on_control(uv_poll_t *poll, int status, int events) {
    struct transfer_process *process = poll->data;
    if (status < 0) {
        uv_poll_stop(poll);
        return;
    }
    if (events & UV_WRITABLE)
        send_unsent(process);
    if (events & (UV_READABLE | UV_DISCONNECT))
        hear(process);
}

static void on_process_exit(uv_process_t *handle, int64_t exit_status, int signal) {
    struct transfer_process *process = handle->data;
    struct device *device = process->device;
    double seconds = (double)(monotonic_ns() - process->started_ns) / 1e9;
    process->reaped = true;
    hear(process); // what it said last
    process->device = NULL;
    if (process->asked_to_end)
        log_info("the transfer process of GPU %s has ended", device->uuid);
    else if (signal)
        supervisor_report(device->supervisor,
                          "the transfer process of GPU %s was ended by signal %d (%s) after %.1f s",
                          device->uuid, signal, strsignal(signal), seconds);
    else
        supervisor_report(device->supervisor,
                          "the transfer process of GPU %s ended by itself with status %d after %.1f s",
                          device->uuid, (int)exit_status, seconds);
    struct unsent *unsent;
    while ((unsent = TAILQ_FIRST(&process->unsent)))
        drop_unsent(process, unsent);
    bool asked = process->asked_to_end;
    uint64_t lived = monotonic_ns() - process->started_ns;
    uv_close((uv_handle_t *)&process->process, on_handle_closed);
    uv_close((uv_handle_t *)&process->control, on_handle_closed);
    device_process_ended(device, asked, lived);
}

// What it said last is heard after it was reaped, and by then its number may be another process's.
static void send_signal(struct transfer_process *process, int signal) {
    if (!process->reaped)
        uv_process_kill(&process->process, signal);
}

void transfer_process_stop(struct transfer_process *process) {
    process->asked_to_end = true;
    send_signal(process, SIGTERM);
}

void transfer_process_kill(struct transfer_process *process) {
    process->killed = true;
    send_signal(process, SIGKILL);
}

// ---- Starting ----------------------------------------------------------------------------------------------

static int write_settings(const struct device *device, int *settings_fd, struct error *error) {
    struct transfer_settings settings = {
        .bytes = sizeof settings,
        .supervisor_pid = (uint64_t)getpid(),
        .stats_record = device->record,
        .log_level = log_get_level(),
    };
    memcpy(settings.uuid, device->uuid, sizeof settings.uuid);
    AUTO_CLOSE int fd = memfd_create("feedd-transfer-settings", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, &settings, sizeof settings, 0) != (ssize_t)sizeof settings)
        return error_set(error, fd < 0 ? -errno : -EIO,
                         "cannot make the memory file of a transfer process's settings: %m");
    *settings_fd = fd;
    fd = -1;
    return 0;
}

static int spawn(struct transfer_process *process, int settings_fd, int socket, struct error *error) {
    struct device *device = process->device;
    const int inherited[] = {
        [STDOUT_FILENO] = STDOUT_FILENO,
        [STDERR_FILENO] = STDERR_FILENO,
        [HERITAGE_SETTINGS] = settings_fd,
        [HERITAGE_CONTROL] = socket,
        [HERITAGE_TRANSFER_STATS] = device->supervisor->stats_fd,
        [HERITAGE_WAKE] = device->wake_fd,
    };
    uv_stdio_container_t stdio[COUNT_OF(inherited)] = {{.flags = UV_IGNORE}}; // 0 becomes /dev/null
    for (size_t i = 1; i < COUNT_OF(inherited); i++) {
        stdio[i].flags = UV_INHERIT_FD;
        stdio[i].data.fd = inherited[i];
    }
    char role[] = "feedd-transfer";
    char option[] = "--role=transfer";
    char *arguments[] = {role, option, device->uuid, NULL}; // the UUID is shown by ps, not read
    uv_process_options_t options = {
        .exit_cb = on_process_exit,
        .file = "/proc/self/exe",
        .args = arguments,
        .stdio = stdio,
        .stdio_count = COUNT_OF(inherited),
    };
    process->open_handles++; // initialised by uv_spawn even when that fails
    int err = uv_spawn(&device->supervisor->loop, &process->process, &options);
    return err ? error_set(error, err, "cannot start a transfer process: %s", uv_strerror(err)) : 0;
}

static int start_with_socket(struct transfer_process *process, struct error *error) {
    AUTO_CLOSE int settings_fd = -1;
    AUTO_CLOSE int far_end = -1;
    int ends[2];
    int err = write_settings(process->device, &settings_fd, error);
    if (err)
        return err;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_set(error, -errno, "cannot make sockets for a transfer process: %m");
    process->socket = ends[0];
    far_end = ends[1]; // blocks, ours does not: uv_poll_init sees to that
    err = uv_poll_init(&process->device->supervisor->loop, &process->control, process->socket);
    if (err)
        return error_set(error, err, "cannot watch a transfer process's socket: %s", uv_strerror(err));
    process->open_handles++;
    return spawn(process, settings_fd, far_end, error);
}

static void discard(struct transfer_process *process) {
    uint32_t opened = process->open_handles;
    if (!opened) {
        close_fd(&process->socket);
        free(process);
        return;
    }
    uv_close((uv_handle_t *)&process->control, on_handle_closed);
    if (opened > 1)
        uv_close((uv_handle_t *)&process->process, on_handle_closed);
}

int transfer_process_start(struct device *device, struct transfer_process **started, struct error *error) {
    struct transfer_process *process = calloc(1, sizeof *process);
    if (!process)
        return error_set(error, -ENOMEM, "out of memory");
    process->device = device;
    process->socket = -1;
    TAILQ_INIT(&process->unsent);
    process->started_ns = monotonic_ns();
    process->process.data = process->control.data = process;
    // Before it runs: from then on the heartbeat is its own.
    struct stats_gpu *record = &device->supervisor->stats->gpus[device->record];
    atomic_store_explicit(&record->heartbeat_ns, process->started_ns, memory_order_relaxed);
    int err = start_with_socket(process, error);
    if (err) {
        process->device = NULL;
        discard(process);
        return err;
    }
    atomic_store_explicit(&record->pid, (uint64_t)process->process.pid, memory_order_relaxed);
    uv_poll_start(&process->control, UV_READABLE | UV_DISCONNECT, on_control);
    log_info("transfer process of GPU %s started as process %d", device->uuid, process->process.pid);
    *started = process;
    return 0;
}
