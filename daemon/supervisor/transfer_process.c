#include "daemon/supervisor/transfer_process.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "daemon/heritage.h"

#define REPORTS_MOST 64u // at a time; others get their turn before the rest

struct transfer_process {
    struct device *device; // NULL once it has ended
    uv_process_t process;
    uv_poll_t control;
    int socket;
    bool asked_to_end;
    uint32_t open_handles; // libuv's; freed when 0
    uint64_t started_ns;
};

int transfer_process_socket(const struct transfer_process *process) {
    return process->socket;
}

uint64_t transfer_process_started_ns(const struct transfer_process *process) {
    return process->started_ns;
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
            // Its end comes by on_process_exit. A socket that ended would be reported over and over until then.
            if (got < 0)
                uv_poll_stop(&process->control);
            return;
        }
        while (count > 1)
            close(fds[--count]);
        device_heard(process->device, &report, count ? fds[0] : -1);
    }
}

static void on_control(uv_poll_t *poll, int status, int events) {
    struct transfer_process *process = poll->data;
    (void)events;
    if (status < 0)
        uv_poll_stop(poll);
    else
        hear(process);
}

static void on_process_exit(uv_process_t *handle, int64_t exit_status, int signal) {
    struct transfer_process *process = handle->data;
    struct device *device = process->device;
    double seconds = (double)(monotonic_ns() - process->started_ns) / 1e9;
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
    bool asked = process->asked_to_end;
    uint64_t lived = monotonic_ns() - process->started_ns;
    uv_close((uv_handle_t *)&process->process, on_handle_closed);
    uv_close((uv_handle_t *)&process->control, on_handle_closed);
    device_process_ended(device, asked, lived);
}

void transfer_process_stop(struct transfer_process *process) {
    process->asked_to_end = true;
    uv_process_kill(&process->process, SIGTERM);
}

void transfer_process_kill(struct transfer_process *process) {
    uv_process_kill(&process->process, SIGKILL);
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
    int failed = uv_spawn(&device->supervisor->loop, &process->process, &options);
    return failed ? error_set(error, failed, "cannot start a transfer process: %s", uv_strerror(failed)) : 0;
}

static int start_with_socket(struct transfer_process *process, struct error *error) {
    AUTO_CLOSE int settings_fd = -1;
    AUTO_CLOSE int far_end = -1;
    int ends[2];
    int failed = write_settings(process->device, &settings_fd, error);
    if (failed)
        return failed;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_set(error, -errno, "cannot make sockets for a transfer process: %m");
    process->socket = ends[0];
    far_end = ends[1]; // blocks, ours does not: uv_poll_init sees to that
    failed = uv_poll_init(&process->device->supervisor->loop, &process->control, process->socket);
    if (failed)
        return error_set(error, failed, "cannot watch a transfer process's socket: %s", uv_strerror(failed));
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
    process->started_ns = monotonic_ns();
    process->process.data = process->control.data = process;
    int failed = start_with_socket(process, error);
    if (failed) {
        process->device = NULL;
        discard(process);
        return failed;
    }
    struct stats_gpu *record = &device->supervisor->stats->gpus[device->record];
    atomic_store_explicit(&record->heartbeat_ns, process->started_ns, memory_order_relaxed);
    atomic_store_explicit(&record->pid, (uint64_t)process->process.pid, memory_order_relaxed);
    uv_poll_start(&process->control, UV_READABLE | UV_DISCONNECT, on_control);
    log_info("transfer process of GPU %s started as process %d", device->uuid, process->process.pid);
    *started = process;
    return 0;
}
