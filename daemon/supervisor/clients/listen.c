#include "daemon/supervisor/clients/listen.h"

#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/error.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/notify.h"

#define BACKLOG          128
#define ACCEPTED_AT_ONCE 16 // then others get their turn

// Since Linux 6.16; libc's headers may be older.
#if !defined(SO_PASSRIGHTS) && (defined(__x86_64__) || defined(__aarch64__))
#define SO_PASSRIGHTS 83
#endif

static int socket_address(const char *path, struct sockaddr_un *address, struct error *error) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path)
        return error_set(error, -ENAMETOOLONG, "the socket path %s has %zu bytes; the maximum is %zu", path,
                         strlen(path), sizeof address->sun_path - 1);
    memcpy(address->sun_path, path, strlen(path) + 1);
    return 0;
}

// The process that holds the lock is the daemon of this path. It unlinks the file at the end, so a lock counts only if
// the path still leads to the file that was locked. A link that somebody else has put there is not followed.
//
// A daemon that was killed while it started a process leaves the lock to that process until it is executed, so we wait
// a moment. This comes before the loop.
#define LOCK_ATTEMPTS 100
#define LOCK_PAUSE_MS 10

static int take_lock(struct supervisor *supervisor, struct error *error) {
    char path[sizeof supervisor->socket_path + 8];
    snprintf(path, sizeof path, "%s.lock", supervisor->socket_path);
    for (int attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
        struct stat locked, named;
        AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return error_set(error, -errno, "cannot open the lock file %s: %m", path);
        bool busy = flock(fd, LOCK_EX | LOCK_NB) < 0;
        if (busy && errno == EWOULDBLOCK && attempt + 1 < LOCK_ATTEMPTS) {
            poll(NULL, 0, LOCK_PAUSE_MS);
            continue;
        }
        if (busy)
            return error_set(error, -EADDRINUSE,
                             "another feedd serves %s; stop it first or use another socket",
                             supervisor->socket_path);
        if (fstat(fd, &locked) < 0 || lstat(path, &named) < 0 || locked.st_ino != named.st_ino ||
            locked.st_dev != named.st_dev)
            continue;
        supervisor->lock_fd = fd;
        fd = -1;
        return 0;
    }
    return error_set(error, -EBUSY, "the lock file %s does not stay in place", path);
}

static int find_group(struct supervisor *supervisor, struct error *error) {
    const char *name = supervisor->config->socket_group;
    const struct group *group = name ? getgrnam(name) : NULL;
    if (name && !group)
        return error_set(error, -EINVAL, "socket_group: there is no group named \"%s\"", name);
    supervisor->group = group ? group->gr_gid : (gid_t)-1;
    return 0;
}

static int set_access(const struct supervisor *supervisor, const char *path, struct error *error) {
    if (chmod(path, supervisor->config->socket_mode) < 0)
        return error_set(error, -errno, "cannot set the mode of %s: %m", path);
    if (chown(path, (uid_t)-1, supervisor->group) < 0)
        return error_set(error, -errno, "cannot give %s to group %s: %m", path,
                         supervisor->config->socket_group);
    return 0;
}

// Clients send no descriptors. Where the kernel can enforce that, sending fails with EPERM and none ever arrives;
// accepted sockets inherit the setting. Elsewhere, and for connections older than this call, closer.h applies.
static void refuse_descriptors(int fd) {
#ifdef SO_PASSRIGHTS
    setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &(int){0}, sizeof(int));
#else
    (void)fd;
#endif
}

static bool somebody_answers(const struct sockaddr_un *address) {
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd >= 0 &&
           (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN);
}

static int bind_socket(struct supervisor *supervisor, struct error *error) {
    const char *path = supervisor->socket_path;
    struct sockaddr_un address;
    struct stat status;
    int err = socket_address(path, &address, error);
    if (err)
        return err;
    if (lstat(path, &status) == 0) {
        if (!S_ISSOCK(status.st_mode))
            return error_set(error, -EEXIST,
                             "%s exists and is not a socket; move it away or set another socket path", path);
        if (somebody_answers(&address))
            return error_set(error, -EADDRINUSE, "another program listens on %s", path);
        log_info("removing the stale socket %s", path);
        unlink(path); // we hold the lock: its owner is dead
    }
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set(error, -errno, "cannot make a socket: %m");
    refuse_descriptors(fd);
    // Nobody may connect between bind and chmod.
    mode_t old_mask = umask(0177);
    int bound = bind(fd, (struct sockaddr *)&address, sizeof address);
    umask(old_mask);
    if (bound < 0)
        return error_set(error, -errno, "cannot listen on %s: %m", path);
    err = set_access(supervisor, path, error);
    if (err) {
        unlink(path);
        return err;
    }
    supervisor->listen_fd = fd;
    fd = -1;
    return 0;
}

// A socket from the service manager: its path is the one that clients use.
static int adopt_socket(struct supervisor *supervisor, int fd, struct error *error) {
    struct sockaddr_un address = {0};
    socklen_t bytes = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) < 0 || address.sun_family != AF_UNIX ||
        address.sun_path[0] != '/')
        return error_set(error, -EINVAL,
                         "the socket passed by the service manager is not a Unix socket with a path");
    snprintf(supervisor->socket_path, sizeof supervisor->socket_path, "%s", address.sun_path);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    supervisor->listen_fd = fd;
    supervisor->listen_inherited = true;
    refuse_descriptors(fd);
    return 0;
}

int listen_open(struct supervisor *supervisor, struct error *error) {
    supervisor->listen_fd = supervisor->lock_fd = -1;
    snprintf(supervisor->socket_path, sizeof supervisor->socket_path, "%s", supervisor->config->socket);
    int inherited = notify_listen_fd();
    supervisor->closer = closer_open();
    if (!supervisor->closer)
        return error_set(error, -ENOMEM, "out of memory");
    int err = find_group(supervisor, error);
    if (!err && inherited >= 0)
        err = adopt_socket(supervisor, inherited, error);
    if (!err)
        err = take_lock(supervisor, error);
    if (!err && inherited < 0)
        err = bind_socket(supervisor, error);
    return err;
}

static void admit(struct supervisor *supervisor, int fd) {
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    uint64_t most = supervisor->config->user_sessions;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0) {
        close(fd);
        return;
    }
    bool busy = closer_count(supervisor->closer, peer.uid) > 0;
    struct session *session = session_open(supervisor, fd, &peer);
    if (!session)
        closer_take_socket(supervisor->closer, peer.uid, &fd);
    else if (busy) // so the session is not read: there may be more of them
        session_fail(session, -EBUSY,
                     "descriptors that user %d sent are still being closed; clients send none",
                     (int)peer.uid);
    else if (session->user->sessions > most)
        session_fail(session, -EBUSY,
                     "user %d already has %" PRIu64 " sessions, the maximum per user (user_sessions)",
                     (int)peer.uid, most);
}

// The socket is level-triggered, so wait for the next tick rather than spin.
static void pause_listening(struct supervisor *supervisor, const char *why) {
    poll_set_change(&supervisor->listener, 0);
    supervisor_report(supervisor, "%s: a client has to wait", why);
}

static void accept_some(struct supervisor *supervisor) {
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        if (closer_is_full(supervisor->closer)) {
            pause_listening(supervisor, "too many descriptors that clients sent are still being closed");
            return;
        }
        int fd = accept4(supervisor->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            admit(supervisor, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE)
            pause_listening(supervisor, "out of file descriptors");
        else if (errno == ENOMEM || errno == ENOBUFS)
            pause_listening(supervisor, "out of memory");
        return;
    }
}

static void on_connection(struct poll_entry *entry, uint32_t events) {
    struct supervisor *supervisor = CONTAINER_OF(entry, struct supervisor, listener);
    struct turn_part before = turn_clock_enter(&supervisor->clock, TURN_LISTENER, 0);
    (void)events;
    accept_some(supervisor);
    turn_clock_leave(&supervisor->clock, before);
}

int listen_start(struct supervisor *supervisor) {
    if (!supervisor->listen_inherited && listen(supervisor->listen_fd, BACKLOG) < 0)
        return -errno;
    return poll_set_add(&supervisor->poll_set, &supervisor->listener, supervisor->listen_fd, EPOLLIN,
                        on_connection);
}

void listen_resume(struct supervisor *supervisor) {
    poll_set_change(&supervisor->listener, EPOLLIN);
}

void listen_stop(struct supervisor *supervisor) {
    poll_set_remove(&supervisor->listener);
}

void listen_close(struct supervisor *supervisor) {
    char path[sizeof supervisor->socket_path + 8];
    if (supervisor->listen_fd >= 0 && !supervisor->listen_inherited && unlink(supervisor->socket_path) < 0 &&
        errno != ENOENT)
        log_warning("cannot remove the socket %s: %m", supervisor->socket_path);
    // Not closed here, because that would close connections that were never accepted and descriptors in their queues.
    // The end of this process closes it without waiting for them.
    if (supervisor->closer)
        closer_leave(supervisor->closer);
    if (supervisor->lock_fd < 0)
        return;
    snprintf(path, sizeof path, "%s.lock", supervisor->socket_path);
    unlink(path); // before the lock goes with the descriptor
    close_fd(&supervisor->lock_fd);
}
