#include "client/lib/connect.h"

#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "base/scope.h"
#include "base/time.h"
#include "proto/limits.h"

#define RETRY_NS (2 * NS_PER_MS) // about how long a full accept queue takes to empty

const char *connect_path(const char *path) {
    if (path && *path)
        return path;
    const char *set = secure_getenv("FEEDD_SOCKET");
    return set && *set ? set : PROTO_DEFAULT_SOCKET;
}

static int explain_permission(const char *path, struct error *error) {
    struct stat status;
    struct group group, *found = NULL;
    char names[4096];
    // A socket left to root's group: no group was configured.
    if (stat(path, &status) == 0 && status.st_gid != 0)
        getgrgid_r(status.st_gid, &group, names, sizeof names, &found);
    if (!found)
        return error_set(
            error, -EACCES,
            "you may not connect to %s: socket_group in the daemon's configuration says which group may",
            path);
    return error_set(error, -EACCES,
                     "you may not connect to %s: only its owner and members of group %s may (usermod -aG %s "
                     "USER, then log in again)",
                     path, found->gr_name, found->gr_name);
}

// No socket and a socket without a listener get the same code: either way there is no daemon, and -ENOENT is left to a
// dataset that does not exist.
static int explain_connect(const char *path, int code, struct error *error) {
    struct stat status;
    if (code == EACCES || code == EPERM)
        return explain_permission(path, error);
    if (code == ENOENT)
        return error_set(error, -ECONNREFUSED,
                         "no feedd is listening on %s: there is no such socket; is the service running "
                         "(systemctl status feedd), or does it use another socket (FEEDD_SOCKET)?",
                         path);
    if (code == ECONNREFUSED && stat(path, &status) == 0 && !S_ISSOCK(status.st_mode))
        return error_set(error, -ECONNREFUSED, "no feedd is listening on %s: that file is not a socket",
                         path);
    if (code == ECONNREFUSED)
        return error_set(
            error, -ECONNREFUSED,
            "no feedd is listening on %s: the socket exists, but nothing accepts connections; is "
            "the service running (systemctl status feedd)?",
            path);
    return error_set(error, -code, "cannot connect to %s: %s", path, strerror(code));
}

// A Unix socket with a full queue says EAGAIN and offers nothing to poll for, so this retries until the deadline.
static int connect_until(int fd, const struct sockaddr_un *address, struct interrupt interrupt,
                         uint64_t deadline, struct error *error) {
    for (;;) {
        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return explain_connect(address->sun_path, errno, error);
        if (deadline != DEADLINE_NONE && monotonic_ns() >= deadline)
            return error_set(error, -ETIMEDOUT, "feedd on %s does not accept connections: its queue is full",
                             address->sun_path);
        if (interrupt_wanted(interrupt))
            return error_set(error, -EINTR, "connecting to %s was interrupted", address->sun_path);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
}

int connect_socket(const char *path, struct interrupt interrupt, uint64_t deadline, struct error *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length >= sizeof address.sun_path)
        return error_set(error, -ENAMETOOLONG, "socket path %s is too long: at most %zu bytes", path,
                         sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, length);
    int fd AUTO_CLOSE = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(error, -errno, "cannot create a socket: %s", strerror(errno));
    int err = connect_until(fd, &address, interrupt, deadline, error);
    if (err)
        return err;
    int connected = fd;
    fd = -1;
    return connected;
}
