#include "tests/simulate/network.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "client/lib/connect.h"
#include "daemon/supervisor/clients/session.h"
#include "tests/simulate/daemon.h"
#include "tests/simulate/transfer.h"

#define FDS_MOST 512

// Who is at the other end of a descriptor of the daemon.
static struct peer {
    struct client *client;
    uint64_t connection; // of the client's
    struct actor *actor; // a transfer process, to which packets are sent
} peers[FDS_MOST];

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
void __real_member_fail(struct member *member, int code, const char *format, ...) PRINTF_LIKE(3, 4);
void __wrap_member_fail(struct member *member, int code, const char *format, ...) PRINTF_LIKE(3, 4);

void network_begin(void) {
    for (uint32_t i = 0; i < COUNT_OF(peers); i++)
        peers[i] = (struct peer){0};
}

uint64_t network_delay(void) {
    return 200 + sim_below(1 + plan.delay_us * NS_PER_US);
}

static void wake_peer(int fd) {
    if (client_running || transfer_running)
        daemon_wake(network_delay());
    else if (fd < FDS_MOST && peers[fd].client)
        actor_wake(&peers[fd].client->actor, network_delay());
    else if (fd < FDS_MOST && peers[fd].actor)
        actor_wake(peers[fd].actor, network_delay());
}

void network_watched(int fd, struct actor *actor) {
    SIM_MUST(fd < FDS_MOST);
    peers[fd] = (struct peer){.actor = actor};
}

void network_unwatched(int fd, const struct actor *actor) {
    if (peers[fd].actor == actor) // else the descriptor's number is another one's already
        peers[fd].actor = NULL;
}

static bool sends_packets(int fd) {
    return transfer_running || (!client_running && fd < FDS_MOST && peers[fd].actor);
}

void network_closed(int fd) {
    wake_peer(fd);
    if (fd < FDS_MOST)
        peers[fd] = (struct peer){0};
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
    if (!transfer_running && sim_fault(plan.full)) {
        if (!client_running)
            daemon_wake(network_delay()); // there is room again
        errno = EAGAIN;
        return -1;
    }
    if (piece.iov_len > 1 && !sends_packets(fd) && sim_fault(plan.torn))
        piece.iov_len = sim_between(1, piece.iov_len - 1);
    part.msg_iov = &piece;
    ssize_t sent = __real_sendmsg(fd, &part, flags);
    wake_peer(fd);
    return sent;
}

// Nothing is promised of a buffer's bytes that do not count as received: here they look like a descriptor.
static void spoil(struct msghdr *message) {
    struct cmsghdr *part = CMSG_FIRSTHDR(message);
    const int fd = 0;
    if (!part || message->msg_controllen < CMSG_SPACE(sizeof fd))
        return;
    *part =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(part), &fd, sizeof fd);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags) {
    size_t room = message->msg_iov[0].iov_len;
    spoil(message);
    if (client_running && client_running->dead) {
        message->msg_controllen = 0;
        message->msg_flags = 0;
        return 0;
    }
    bool torn = room > 1 && !sends_packets(fd) && sim_fault(plan.torn);
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

// ---- Detached clients --------------------------------------------------------------------------------------

void __wrap_member_fail(struct member *member, int code, const char *format, ...) {
    char text[sizeof((struct error *)0)->text];
    const struct peer *peer = &peers[session_of(member)->fd];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bool lied = plan.lies && member->pool; // a transfer process that lies does more harm than that
    if ((code == -ETIME || lied) && session_of(member)->fd >= 0 && peer->client)
        peer->client->detached_connection = max_u64(peer->client->detached_connection, peer->connection);
    __real_member_fail(member, code, "%s", text);
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
    peers[ends[1]] = (struct peer){.client = client, .connection = ++client->connection};
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
