#include "daemon/supervisor/processes/loader_prepared.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/fdpass.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/confine/confine.h"
#include "daemon/log.h"

struct prepared_settings loader_prepared_settings(uint32_t queue_depth) {
    return (struct prepared_settings){
        .bytes = sizeof(struct prepared_settings),
        .supervisor_pid = (uint64_t)getpid(),
        .queue_depth = queue_depth,
        .log_level = log_get_level(),
        .confine = confine_is_wanted(),
    };
}

bool loader_prepared_fits(const struct loader_process *loader, const struct prepared_settings *settings) {
    return loader->process.state == PROCESS_RUNNING && loader->assignment_fd >= 0 &&
           memcmp(&loader->prepared_for, settings, sizeof *settings) == 0;
}

// ---- Starting one ------------------------------------------------------------------------------------------

static int write_settings(const struct prepared_settings *settings, int *settings_fd, struct error *error) {
    AUTO_CLOSE int fd = memfd_create("feedd-loader-prepared", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, settings, sizeof *settings, 0) != (ssize_t)sizeof *settings)
        return error_set(error, fd < 0 ? -errno : -EIO,
                         "cannot make the memory file of a prepared loader's settings: %m");
    *settings_fd = fd;
    fd = -1;
    return 0;
}

static int spawn(struct loader_process *loader, const struct loader_preparation *preparation, int channel,
                 const int fds[HERITAGE_LIFE + 1], struct error *error) {
    // Shown by ps. As long as what the process shows instead once it has a feed: see loader/prepared.c.
    char *arguments[] = {(char *)"feedd-prepared", (char *)"--role=loader-prepared",
                         (char *)"for the next feed", NULL};
    const struct process_start options = {
        .processes = preparation->processes,
        .poll_set = preparation->poll_set,
        .what = "prepared loader process",
        .arguments = arguments,
        .fds = fds,
        .fd_count = HERITAGE_LIFE + 1,
        .channel = channel,
        .changed = preparation->changed,
        .closed = loader_process_free,
        .owner = preparation->owner,
    };
    return process_start(&loader->process, &options, error);
}

static int start_with_socket(const struct loader_preparation *preparation, const int sockets[2],
                             int settings_fd, struct loader_process **started, struct error *error) {
    int ends[2];
    struct loader_process *loader = calloc(1, sizeof *loader);
    if (!loader) {
        close(sockets[0]);
        return error_set(error, -ENOMEM, "out of memory");
    }
    loader->assignment_fd = sockets[0];
    loader->prepared_for = *preparation->settings;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
        loader_process_free(&loader->process);
        return error_set(error, -errno, "cannot make a pipe for a loader: %m");
    }
    AUTO_CLOSE int far_end = ends[1];
    const int fds[HERITAGE_LIFE + 1] = {
        [STDIN_FILENO] = -1,
        [STDOUT_FILENO] = STDOUT_FILENO,
        [STDERR_FILENO] = STDERR_FILENO,
        [HERITAGE_SETTINGS] = settings_fd,
        [HERITAGE_ASSIGNMENT] = sockets[1],
        [HERITAGE_STATS] = -1,
        [HERITAGE_EVENT] = -1,
        [HERITAGE_LIFE] = far_end,
    };
    int err = spawn(loader, preparation, ends[0], fds, error);
    if (err)
        return err;
    log_debug("loader process %d is prepared for the next feed", (int)process_pid(&loader->process));
    *started = loader;
    return 0;
}

int loader_prepared_start(const struct loader_preparation *preparation, struct loader_process **started,
                          struct error *error) {
    AUTO_CLOSE int settings_fd = -1;
    int sockets[2];
    int err = write_settings(preparation->settings, &settings_fd, error);
    if (err)
        return err;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_set(error, -errno, "cannot make sockets for a prepared loader: %m");
    AUTO_CLOSE int far_end = sockets[1];
    return start_with_socket(preparation, sockets, settings_fd, started, error);
}

// ---- Its feed ----------------------------------------------------------------------------------------------

int loader_prepared_offer(const struct loader_process *loader, int fd, uint64_t bytes) {
    const struct loader_assignment offer = {.bytes = bytes, .count = 1, .numbers = {HERITAGE_RING}};
    ssize_t sent = fdpass_send(loader->assignment_fd, &offer, sizeof offer, lend_fds(&fd, 1), MSG_DONTWAIT);
    return sent == (ssize_t)sizeof offer ? 0 : sent < 0 ? (int)sent : -EIO;
}

int loader_prepared_assign(struct loader_process *loader, uint64_t feed, const int *fds, uint32_t fd_count) {
    struct loader_assignment assignment = {.feed = feed, .fd_count = fd_count};
    int lent[FDPASS_MOST];
    if (fd_count > ASSIGNMENT_FDS)
        return -E2BIG;
    for (uint32_t number = HERITAGE_SETTINGS; number < fd_count; number++) {
        if (fds[number] < 0)
            continue;
        if (assignment.count == FDPASS_MOST)
            return -E2BIG;
        lent[assignment.count] = fds[number];
        assignment.numbers[assignment.count++] = (uint8_t)number;
    }
    ssize_t sent = fdpass_send(loader->assignment_fd, &assignment, sizeof assignment,
                               lend_fds(lent, assignment.count), MSG_DONTWAIT);
    if (sent != (ssize_t)sizeof assignment)
        return sent < 0 ? (int)sent : -EIO;
    close_fd(&loader->assignment_fd); // it has got what was sent, and nothing else comes
    return 0;
}

void loader_prepared_dismiss(struct loader_process *loader) {
    process_stop(&loader->process);
    close_fd(&loader->assignment_fd);
}
