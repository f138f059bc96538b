// Finding the socket, connecting to it, and the hello that begins a session.
#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "base/error.h"
#include "base/time.h"
#include "client/lib/connection.h"

#define RETRY_NS 2000000 // a full accept queue empties in about that time

const char *connection_socket_path(const char *path) {
    if (path && *path)
        return path;
    const char *set = secure_getenv("FEEDD_SOCKET");
    return set && *set ? set : PROTO_DEFAULT_SOCKET;
}

static int explain_permission(const char *path, struct error *error) {
    struct stat status;
    struct group group, *found = NULL;
    char names[4096];
    // A socket left to the group of root is nobody's to join.
    if (stat(path, &status) == 0 && status.st_gid != 0)
        getgrgid_r(status.st_gid, &group, names, sizeof names, &found);
    if (!found)
        return error_set(
            error, -EACCES,
            "you may not connect to %s: socket_group in the daemon's configuration says which group may",
            path);
    return error_set(
        error, -EACCES,
        "you may not connect to %s: its owner and the members of group %s may (usermod -aG %s USER, then "
        "log in again)",
        path, found->gr_name, found->gr_name);
}

static int explain_connect(const char *path, int code, struct error *error) {
    if (code == EACCES || code == EPERM)
        return explain_permission(path, error);
    // The Python package goes by these words: a dataset that is not there has the same code.
    if (code == ENOENT)
        return error_set(error, -ENOENT,
                         "no feedd is listening on %s: there is no such socket; is the service running "
                         "(systemctl status feedd), or does it use another socket (FEEDD_SOCKET)?",
                         path);
    struct stat status;
    if (code == ECONNREFUSED && stat(path, &status) == 0 && !S_ISSOCK(status.st_mode))
        return error_set(error, -ECONNREFUSED, "no feedd is listening on %s: what is there is not a socket",
                         path);
    if (code == ECONNREFUSED)
        return error_set(
            error, -ECONNREFUSED,
            "no feedd is listening on %s: the socket is there, but nobody answers; is the service running "
            "(systemctl status feedd)?",
            path);
    return error_set(error, -code, "cannot connect to %s: %s", path, strerror(code));
}

// A Unix socket with a full queue says EAGAIN and offers nothing to poll for, so this tries again until the
// deadline.
static int connect_until(const struct connection *connection, const struct sockaddr_un *address,
                         uint64_t deadline, struct error *error) {
    for (;;) {
        if (connect(connection->socket, (const struct sockaddr *)address, sizeof *address) == 0)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return explain_connect(address->sun_path, errno, error);
        if (deadline != DEADLINE_NONE && monotonic_ns() >= deadline)
            return error_set(error, -ETIMEDOUT, "feedd on %s does not accept connections: its queue is full",
                             address->sun_path);
        if (interrupt_wanted(connection->interrupt))
            return error_set(error, -EINTR, "connecting to %s was interrupted", address->sun_path);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
}

static int open_socket(struct connection *connection, uint64_t deadline, struct error *error) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(connection->path);
    if (length >= sizeof address.sun_path)
        return error_set(error, -ENAMETOOLONG, "socket path %s is too long: at most %zu bytes",
                         connection->path, sizeof address.sun_path - 1);
    memcpy(address.sun_path, connection->path, length);
    connection->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection->socket < 0)
        return error_set(error, -errno, "cannot make a socket: %s", strerror(errno));
    return connect_until(connection, &address, deadline, error);
}

static int await_welcome(struct connection *connection, uint64_t deadline, struct error *error) {
    const Feedd__ServerMessage *answer;
    int got = connection_receive(connection, &answer, deadline, error);
    if (got < 0)
        return got;
    if (got == 0)
        return error_set(error, -ETIMEDOUT,
                         "feedd on %s accepted the connection but says nothing: it may hang",
                         connection->path);
    if (answer->body_case == FEEDD__SERVER_MESSAGE__BODY_ERROR)
        return connection_refusal(answer->error, error);
    if (answer->body_case != FEEDD__SERVER_MESSAGE__BODY_WELCOME)
        return error_set(error, -EPROTO, "what listens on %s is no feedd: it did not say welcome",
                         connection->path);
    if (answer->welcome->version != PROTO_VERSION)
        return error_set(
            error, -EPROTO, "feedd %s on %s speaks protocol version %u, this client version %u: update one",
            answer->welcome->daemon_version, connection->path, answer->welcome->version, PROTO_VERSION);
    return 0;
}

static int say_hello(struct connection *connection, const char *client_name, uint64_t deadline,
                     struct error *error) {
    char name[PROTO_MAX_NAME + 1];
    snprintf(name, sizeof name, "%s", client_name);
    Feedd__Hello hello = FEEDD__HELLO__INIT;
    hello.version = PROTO_VERSION;
    hello.client_name = name;
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_HELLO;
    message.hello = &hello;
    int sent = connection_send(connection, &message);
    if (sent < 0)
        return error_set(error, sent, "cannot say hello to feedd on %s: %s", connection->path,
                         strerror(-sent));
    return await_welcome(connection, deadline, error);
}

int connection_open(struct connection *connection, const char *path, const char *client_name,
                    struct interrupt interrupt, uint64_t deadline, struct error *error) {
    *connection =
        (struct connection){.socket = -1, .owner = getpid(), .path = strdup(path), .interrupt = interrupt};
    int err = connection->path ? open_socket(connection, deadline, error)
                               : error_set(error, -ENOMEM, "out of memory");
    if (err == 0)
        err = say_hello(connection, client_name, deadline, error);
    if (err < 0)
        connection_close(connection);
    return err;
}

void connection_close(struct connection *connection) {
    if (connection->socket >= 0) {
        // A child of a fork may have the descriptor too, by which the daemon would take us for alive.
        if (connection->owner == getpid())
            shutdown(connection->socket, SHUT_RDWR);
        close(connection->socket);
    }
    frame_reader_free(&connection->reader);
    frame_writer_free(&connection->writer);
    codec_arena_free(&connection->arena);
    free(connection->path);
    *connection = (struct connection){.socket = -1};
}
