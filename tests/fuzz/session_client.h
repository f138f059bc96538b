// A client of fuzz_session.c: its connection, and what is known of it.
#ifndef FEEDD_TESTS_FUZZ_SESSION_CLIENT_H
#define FEEDD_TESTS_FUZZ_SESSION_CLIENT_H

#include "tests/fuzz/world_children.h"

struct client {
    int fd; // -1: not connected
    struct frame_reader reader;
    bool attached, ended;
    bool over;            // it has sent something that the supervisor may end it for
    bool brought, wanted; // it has brought a view; the daemon wants its words
    bool wrong, told_why; // it has released what it does not hold; it has been sent an Error
    uint32_t prefetch, held_count;
    uint32_t rank;
    uint64_t feed, next_sequence;
    uint64_t held[RING_MAX_SLOTS / 64];
};

// ---- Connections -------------------------------------------------------------------------------------------

static inline void connect_client(struct client *client, uint32_t user) {
    const struct ucred peer = {.pid = 1, .uid = user ? 1000 + user : geteuid()};
    int sockets[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
    *client = (struct client){.fd = sockets[0]};
    FUZZ_CHECK(session_open(&world.supervisor, sockets[1], &peer));
}

static inline void hang_up(struct client *client) {
    frame_reader_free(&client->reader);
    close_fd(&client->fd);
}

static inline void send_bytes(const struct client *client, const void *bytes, size_t count,
                              uint32_t descriptors) {
    const int fds[] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO};
    fdpass_send(client->fd, bytes, count, lend_fds(fds, descriptors), MSG_DONTWAIT);
}

static inline void send_message(const struct client *client, Feedd__ClientMessage *message) {
    struct frame_writer writer = {0};
    if (codec_send(&writer, &message->base, SIZE_MAX / 2) == 0)
        send_bytes(client, writer.buffer, frame_pending(&writer), 0);
    frame_writer_free(&writer);
}

#define SAY(client, BODY, member, pointer)                                                                   \
    do {                                                                                                     \
        Feedd__ClientMessage message_ = FEEDD__CLIENT_MESSAGE__INIT;                                         \
        message_.body_case = FEEDD__CLIENT_MESSAGE__BODY_##BODY;                                             \
        message_.member = (pointer);                                                                         \
        send_message(client, &message_);                                                                     \
    } while (0)

#endif
