#include "tests/simulate/network.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>

#include "base/error.h"
#include "client/lib/connect.h"
#include "tests/simulate/daemon.h"

#define FDS_MOST 512

// Whose connection a descriptor of the daemon is.
static struct client *peers[FDS_MOST];

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
int __wrap_connect_socket(const char *path, struct interrupt interrupt, uint64_t deadline,
                          struct error *error);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *signals);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left);
uint64_t __wrap_monotonic_ns(void);

void network_begin(void) {
    for (uint32_t i = 0; i < COUNT_OF(peers); i++)
        peers[i] = NULL;
}

uint64_t network_delay(void) {
    return 200 + sim_below(1 + plan.delay_us * NS_PER_US);
}

static void wake_peer(int fd) {
    if (client_running)
        daemon_wake(network_delay());
    else if (fd < FDS_MOST && peers[fd])
        actor_wake(&peers[fd]->actor, network_delay());
}

void network_closed(int fd) {
    wake_peer(fd);
    if (fd < FDS_MOST)
        peers[fd] = NULL;
}

// ---- Both sides --------------------------------------------------------------------------------------------

uint64_t __wrap_monotonic_ns(void) {
    return sim.now_ns;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags) {
    struct msghdr part = *message;
    struct iovec piece = message->msg_iov[0];
    if (client_running && client_running->dead) {
        errno = EPIPE;
        return -1;
    }
    if (sim_fault(plan.full)) {
        if (!client_running)
            daemon_wake(network_delay()); // there is room again
        errno = EAGAIN;
        return -1;
    }
    if (piece.iov_len > 1 && sim_fault(plan.torn))
        piece.iov_len = sim_between(1, piece.iov_len - 1);
    part.msg_iov = &piece;
    ssize_t sent = __real_sendmsg(fd, &part, flags);
    wake_peer(fd);
    return sent;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags) {
    size_t room = message->msg_iov[0].iov_len;
    if (client_running && client_running->dead)
        return 0;
    bool torn = room > 1 && sim_fault(plan.torn);
    if (torn)
        message->msg_iov[0].iov_len = sim_between(1, min_u64(room, 40));
    ssize_t got = __real_recvmsg(fd, message, flags);
    message->msg_iov[0].iov_len = room;
    if (torn && got > 0 && !client_running)
        daemon_wake(network_delay()); // the rest
    if (got > 0 && client_running && plan.socket_bytes)
        wake_peer(fd); // there is room again
    return got;
}

int __wrap_shutdown(int fd, int how) {
    int result = __real_shutdown(fd, how);
    wake_peer(fd);
    return result;
}

// ---- Clients -----------------------------------------------------------------------------------------------

int __wrap_connect_socket(const char *path, struct interrupt interrupt, uint64_t deadline,
                          struct error *error) {
    int ends[2];
    struct client *client = client_running;
    (void)interrupt;
    (void)deadline;
    if (client->dead)
        return error_set(error, -EACCES, "this client has been killed");
    if (!daemon_.up)
        return error_set(error, -ECONNREFUSED, "no feedd is listening on %s", path);
    SIM_MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    if (plan.socket_bytes) {
        int bytes = (int)plan.socket_bytes;
        setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
    SIM_MUST(ends[1] < FDS_MOST);
    peers[ends[1]] = client;
    client->fd = ends[0];
    daemon_accept(ends[1], client->group->user);
    daemon_wake(network_delay());
    return ends[0];
}

// A signal handler of the client's may end the wait early; so does the daemon when it sends something.
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *signals) {
    struct client *client = client_running;
    (void)signals;
    uint64_t until = limit->tv_sec > 1000
                         ? NEVER
                         : sim.now_ns + (uint64_t)limit->tv_sec * NS_PER_S + (uint64_t)limit->tv_nsec;
    for (;;) {
        int ready = poll(fds, count, 0);
        if (ready || sim.now_ns >= until || client->dead)
            return ready;
        client->actor.due_ns = until;
        client_yield(client);
    }
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    (void)clock;
    (void)flags;
    (void)left;
    uint64_t when = (uint64_t)until->tv_sec * NS_PER_S + (uint64_t)until->tv_nsec;
    client_sleep(client_running, when > sim.now_ns ? when - sim.now_ns : 0);
    return 0;
}
