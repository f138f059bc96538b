// A daemon that says whatever the input says, for what runs in a client: libfeed and feedctl. It has no thread of its
// own. A client that connects gets one end of a pair of sockets; whenever the client waits, the daemon takes its next
// step. So an input always does the same, and nothing ever sleeps.
#ifndef FEEDD_TESTS_FUZZ_HOSTILE_H
#define FEEDD_TESTS_FUZZ_HOSTILE_H

#include <sys/socket.h>

#include "base/error.h"
#include "client/lib/connect.h"
#include "proto/codec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/wrapped.h"

#define HOSTILE_CONNECTIONS 6u // then nobody listens any more

static struct hostile {
    struct fuzz_input input;
    uint64_t now_ns;
    int peer; // the daemon's end of the current connection, or -1
    uint32_t connections;
    struct frame_writer writer;
} hostile = {.peer = -1};

// One step of the daemon; defined by the target.
static void hostile_step(void);

int __wrap_connect_socket(const char *path, struct interrupt interrupt, uint64_t deadline,
                          struct error *error);

// ---- What it can do ----------------------------------------------------------------------------------------

static inline void hostile_begin(const uint8_t *data, size_t size) {
    hostile = (struct hostile){.input = {data, size}, .now_ns = 1000 * NS_PER_S, .peer = -1};
}

static inline void hostile_hang_up(void) {
    close_fd(&hostile.peer);
    frame_writer_free(&hostile.writer);
}

// What does not fit into the socket is dropped: then the client finds a torn frame.
static inline void hostile_flush(void) {
    if (hostile.peer >= 0)
        frame_flush(&hostile.writer, hostile.peer);
    frame_writer_free(&hostile.writer);
}

static inline void hostile_send(Feedd__ServerMessage *message) {
    codec_send(&hostile.writer, &message->base, SIZE_MAX / 2);
    hostile_flush();
}

static inline void hostile_attach_fd(int fd) {
    frame_attach_fd(&hostile.writer, fd);
}

#define HOSTILE_SAY(BODY, member, pointer)                                                                   \
    do {                                                                                                     \
        Feedd__ServerMessage message_ = FEEDD__SERVER_MESSAGE__INIT;                                         \
        message_.body_case = FEEDD__SERVER_MESSAGE__BODY_##BODY;                                             \
        message_.member = (pointer);                                                                         \
        hostile_send(&message_);                                                                             \
    } while (0)

static inline void hostile_welcome(uint32_t version) {
    Feedd__Welcome welcome = FEEDD__WELCOME__INIT;
    welcome.version = version;
    welcome.daemon_version = (char *)"9.9";
    HOSTILE_SAY(WELCOME, welcome, &welcome);
}

static inline void hostile_error(int32_t code) {
    char text[64];
    Feedd__Error error = FEEDD__ERROR__INIT;
    error.code = code;
    error.text = fuzz_line(&hostile.input, text, sizeof text);
    HOSTILE_SAY(ERROR, error, &error);
}

// A frame that contains the next bytes of the input.
static inline void hostile_frame(void) {
    const uint8_t *bytes;
    size_t count = fuzz_bytes(&hostile.input, &bytes, fuzz_u16(&hostile.input));
    uint8_t *place = frame_reserve(&hostile.writer, count, SIZE_MAX / 2);
    if (place && count)
        memcpy(place, bytes, count);
    hostile_flush();
}

// Bytes without a frame.
static inline void hostile_bytes(void) {
    const uint8_t *bytes;
    size_t count = fuzz_bytes(&hostile.input, &bytes, fuzz_byte(&hostile.input));
    if (hostile.peer >= 0)
        fdpass_send(hostile.peer, bytes, count, lend_no_fds(), MSG_DONTWAIT);
}

static inline void hostile_read(void) {
    static uint8_t unread[1u << 16];
    if (hostile.peer >= 0)
        recv(hostile.peer, unread, sizeof unread, MSG_DONTWAIT);
}

// ---- What the client calls ---------------------------------------------------------------------------------

uint64_t __wrap_monotonic_ns(void) {
    return hostile.now_ns;
}

int __wrap_connect_socket(const char *path, struct interrupt interrupt, uint64_t deadline,
                          struct error *error) {
    int sockets[2];
    (void)interrupt;
    (void)deadline;
    hostile_hang_up();
    if (hostile.connections++ >= HOSTILE_CONNECTIONS)
        return error_set(error, -EACCES, "nobody listens on %s any more", path);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
    hostile.peer = sockets[1];
    return sockets[0];
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *limit, const sigset_t *signals) {
    (void)limit;
    (void)signals;
    hostile.now_ns += NS_PER_MS;
    if (!hostile.input.left)
        hostile_hang_up();
    else if (hostile.peer >= 0)
        hostile_step();
    return poll(fds, count, 0);
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    (void)clock;
    (void)flags;
    (void)left;
    hostile.now_ns = max_u64(hostile.now_ns, (uint64_t)until->tv_sec * NS_PER_S + (uint64_t)until->tv_nsec);
    return 0;
}

#endif
