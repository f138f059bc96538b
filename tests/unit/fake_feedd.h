// A feedd that follows a script: a listening socket in a private folder, a real ring, and a thread that plays the
// daemon's half of a conversation. Its complaints are looked at by fake_stop, in the test's own thread.
#ifndef FEEDD_TESTS_UNIT_FAKE_FEEDD_H
#define FEEDD_TESTS_UNIT_FAKE_FEEDD_H

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/error.h"
#include "client/feed.h"
#include "order/order.h"
#include "proto/codec.h"
#include "shm/ring.h"
#include "shm/ring_make.h"

#define FAKE_SLOTS   32u
#define FAKE_BATCH   8u
#define FAKE_SAMPLES 1000u
#define FAKE_WAIT_MS 5000
// A busy machine may notice the end of a time limit so late.
#define FAKE_LATE_NS (FAKE_WAIT_MS * UINT64_C(1000000))
// Of ragged values in a batch, at most; 0: the ring has no ragged field. To be defined before this is included.
#ifndef FAKE_RAGGED
#define FAKE_RAGGED 0
#endif

struct fake {
    char folder[32], path[64];
    int listener, peer, ring_fd, read_fd;
    struct frame_reader reader;
    struct frame_writer writer;
    struct codec_arena arena;
    struct ring ring;
    uint64_t samples, epoch, consumed; // what Attached says
    uint64_t run;                      // of Attached, and of what fake_fill describes
    uint32_t prefetch;
    uint32_t wait_for;         // of Attached and Grant
    uint64_t fill[FAKE_SLOTS]; // as Grant says
    pthread_t thread;
    void (*script)(struct fake *);
    void *context; // the script's
    const char *complaint;
};

#define FAKE_CHECK(fake, condition)                                                                          \
    do {                                                                                                     \
        if (!(condition) && !(fake)->complaint)                                                              \
            (fake)->complaint = #condition;                                                                  \
    } while (0)

static void fake_make_ring(struct fake *fake) {
    struct ring_plan plan = {.slot_count = FAKE_SLOTS,
                             .batch_size = FAKE_BATCH,
                             .field_count = 2,
                             .samples = fake->samples,
                             .seed = 7,
                             .fingerprint = 0xfeed,
                             .world_size = 1,
                             .order_version = ORDER_FEISTEL_1};
    plan.fields[0] = (struct ring_field){"image", DTYPE_U8, 2, {4, 5}, 20, 0};
    plan.fields[1] = (struct ring_field){"label", DTYPE_I64, 0, {0}, 8, 0};
    if (FAKE_RAGGED)
        plan.fields[plan.field_count++] =
            (struct ring_field){.name = "ids", .dtype = DTYPE_I32, .dimensions = 1, .ragged = 1};
    plan.ragged_usual = plan.ragged_most = FAKE_RAGGED;
    struct error error = {0};
    assert_int_equal(ring_plan(&plan, &error), 0);
    assert_int_equal(ring_create(&plan, &fake->ring_fd, &fake->read_fd, &error), 0);
    assert_int_equal(ring_allocate_control(&plan, fake->ring_fd, &error), 0);
    assert_int_equal(ring_map(&fake->ring, fake->ring_fd, RING_FILL, &error), 0);
}

static inline void fake_listen(struct fake *fake, int backlog) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(fake->folder, sizeof fake->folder, "/tmp/fake-feedd-XXXXXX");
    assert_non_null(mkdtemp(fake->folder));
    snprintf(fake->path, sizeof fake->path, "%s/sock", fake->folder);
    memcpy(address.sun_path, fake->path, sizeof fake->path);
    fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fake->listener, backlog), 0);
}

static inline void *fake_run(void *argument) {
    struct fake *fake = argument;
    sigset_t all; // signals are for the test's thread
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    fake->peer = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
    fake->script(fake);
    close_fd(&fake->peer);
    return NULL;
}

// Accepts nobody, and its queue is full: *filler has the only place.
static inline void fake_listen_full(struct fake *fake, int *filler) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *fake = (struct fake){.ring_fd = -1, .read_fd = -1};
    fake_listen(fake, 0);
    memcpy(address.sun_path, fake->path, sizeof fake->path);
    *filler = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(*filler, (struct sockaddr *)&address, sizeof address), 0);
}

// Plays `script` from a place in an epoch on. The first batch is number 5.
static inline void fake_start_at(struct fake *fake, void (*script)(struct fake *), uint64_t samples,
                                 uint64_t epoch, uint64_t consumed, void *context) {
    *fake = (struct fake){.peer = -1, .ring_fd = -1, .read_fd = -1, .prefetch = 16, .script = script};
    fake->samples = samples;
    fake->epoch = epoch;
    fake->consumed = consumed;
    fake->run = 4;
    fake->context = context;
    fake_make_ring(fake);
    fake_listen(fake, 8);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_run, fake), 0);
}

static inline void fake_start(struct fake *fake, void (*script)(struct fake *)) {
    fake_start_at(fake, script, FAKE_SAMPLES, 3, 40, NULL);
}

static inline void fake_stop(struct fake *fake) {
    if (fake->script)
        pthread_join(fake->thread, NULL);
    frame_reader_free(&fake->reader);
    frame_writer_free(&fake->writer);
    codec_arena_free(&fake->arena);
    ring_unmap(&fake->ring);
    close_fd(&fake->listener);
    close_fd(&fake->ring_fd);
    close_fd(&fake->read_fd);
    unlink(fake->path);
    rmdir(fake->folder);
    if (fake->complaint)
        fail_msg("the script found wrong: %s", fake->complaint);
}

// ---- The script's half -----------------------------------------------------------------------------

// The next message, or NULL when the client has gone or says nothing for long.
static inline const Feedd__ClientMessage *fake_receive(struct fake *fake) {
    const uint8_t *bytes;
    size_t count;
    while (frame_next(&fake->reader, &bytes, &count) == 0) {
        struct pollfd poll_for = {.fd = fake->peer, .events = POLLIN};
        if (poll(&poll_for, 1, FAKE_WAIT_MS) != 1 || frame_read(&fake->reader, fake->peer) <= 0)
            return NULL;
    }
    return codec_unpack_client(&fake->arena, bytes, count);
}

static inline const Feedd__ClientMessage *fake_expect(struct fake *fake,
                                                      Feedd__ClientMessage__BodyCase body) {
    const Feedd__ClientMessage *message = fake_receive(fake);
    FAKE_CHECK(fake, message && message->body_case == body);
    return message && message->body_case == body ? message : NULL;
}

static inline void fake_flush(struct fake *fake) {
    while (frame_flush(&fake->writer, fake->peer) == -EAGAIN)
        poll(&(struct pollfd){.fd = fake->peer, .events = POLLOUT}, 1, FAKE_WAIT_MS);
}

#define FAKE_SEND(fake, BODY, member, pointer)                                                               \
    do {                                                                                                     \
        Feedd__ServerMessage message_ = FEEDD__SERVER_MESSAGE__INIT;                                         \
        message_.body_case = FEEDD__SERVER_MESSAGE__BODY_##BODY;                                             \
        message_.member = (pointer);                                                                         \
        codec_send(&(fake)->writer, &message_.base, SIZE_MAX);                                               \
        fake_flush(fake);                                                                                    \
    } while (0)

static inline void fake_welcome(struct fake *fake, uint32_t version) {
    const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_HELLO);
    FAKE_CHECK(fake, message && message->hello->version == PROTO_VERSION);
    Feedd__Welcome welcome = FEEDD__WELCOME__INIT;
    welcome.version = version;
    welcome.daemon_version = (char *)"9.9";
    FAKE_SEND(fake, WELCOME, welcome, &welcome);
}

static inline void fake_error(struct fake *fake, int code, const char *text) {
    Feedd__Error error = FEEDD__ERROR__INIT;
    error.code = code;
    error.text = (char *)text;
    FAKE_SEND(fake, ERROR, error, &error);
}

static inline void fake_attached(struct fake *fake, int fd) {
    Feedd__Attached attached = FEEDD__ATTACHED__INIT;
    attached.ring_bytes = fake->ring.mapped_bytes;
    attached.prefetch = fake->prefetch;
    attached.epoch = fake->epoch;
    attached.consumed = fake->consumed;
    attached.sequence = 5;
    attached.run = fake->run;
    attached.wait_for = fake->wait_for;
    attached.ring_slots = FAKE_SLOTS;
    if (fd >= 0)
        FAKE_CHECK(fake, frame_attach_fd(&fake->writer, fd) == 0);
    FAKE_SEND(fake, ATTACHED, attached, &attached);
}

// Closes the connection without a message, as a killed daemon does, and waits for the client to come back.
static inline void fake_die_and_return(struct fake *fake) {
    close_fd(&fake->peer);
    frame_reader_free(&fake->reader);
    fake->peer = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
}

// Waits until the client sleeps, so that what follows does not depend on which side is faster.
static inline void fake_await_sleep(struct fake *fake) {
    const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_RELEASE);
    FAKE_CHECK(fake, message && message->release->waiting);
}

// Hello to attached.
static inline void fake_open(struct fake *fake) {
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_ATTACH);
    fake_attached(fake, fake->read_fd);
}

// What the daemon and its loaders do before a grant: batch `sequence` is in `slot`.
static inline void fake_fill(struct fake *fake, uint32_t slot, uint64_t sequence) {
    struct ring_slot *record = ring_slot(&fake->ring, slot);
    fake->fill[slot] = ++record->fill;
    record->run = fake->run;
    record->rank = 0;
    record->epoch = 3;
    record->index = sequence;
    record->first_position = sequence * FAKE_BATCH;
    record->consumed = (sequence + 1) * FAKE_BATCH;
    record->count = FAKE_BATCH;
    record->skipped = 0;
    record->last_of_epoch = 0;
    __atomic_store_n(&record->sequence, sequence, __ATOMIC_RELEASE);
    memset(ring_slot_data(&fake->ring, slot), (int)sequence, FAKE_BATCH * 20);
}

// As fake_fill, after the slot was taken back: the grants of before still say what they said.
static inline void fake_fill_again(struct fake *fake, uint32_t slot, uint64_t sequence) {
    uint64_t granted = fake->fill[slot];
    fake_fill(fake, slot, sequence);
    fake->fill[slot] = granted;
}

static inline void fake_send_fills(struct fake *fake, uint64_t sequence, uint32_t *slots, size_t count,
                                   size_t fill_count) {
    Feedd__Grant grant = FEEDD__GRANT__INIT;
    uint64_t fills[FAKE_SLOTS];
    for (size_t i = 0; i < fill_count; i++)
        fills[i] = i < count && slots[i] < FAKE_SLOTS ? fake->fill[slots[i]] : 0;
    grant.sequence = sequence;
    grant.slots = slots;
    grant.n_slots = count;
    grant.fills = fills;
    grant.n_fills = fill_count;
    grant.wait_for = fake->wait_for;
    FAKE_SEND(fake, GRANT, grant, &grant);
}

static inline void fake_send_grant(struct fake *fake, uint64_t sequence, uint32_t *slots, size_t count) {
    fake_send_fills(fake, sequence, slots, count, count);
}

// Fills and grants batches sequence.. in slots first_slot..
static inline void fake_grant(struct fake *fake, uint64_t sequence, uint32_t first_slot, uint32_t count) {
    uint32_t slots[FAKE_SLOTS];
    for (uint32_t i = 0; i < count; i++) {
        slots[i] = first_slot + i;
        fake_fill(fake, slots[i], sequence + i);
    }
    fake_send_grant(fake, sequence, slots, count);
}

static inline void fake_end(struct fake *fake) {
    Feedd__End end = FEEDD__END__INIT;
    FAKE_SEND(fake, END, end, &end);
}

// Until the client closes.
static inline void fake_linger(struct fake *fake) {
    while (fake_receive(fake))
        ;
}

// ---- The test's half -------------------------------------------------------------------------------

static inline struct feed_options fake_options(const struct fake *fake) {
    return (struct feed_options){.socket = fake->path,
                                 .dataset = "numbers",
                                 .batch_size = FAKE_BATCH,
                                 .shuffle = true,
                                 .seed = 7,
                                 .client_name = "test",
                                 .reconnect_timeout_ms = -1,
                                 .connect_timeout_ms = FAKE_WAIT_MS};
}

static inline struct feed *fake_client(const struct fake *fake) {
    struct feed_options options = fake_options(fake);
    struct feed *feed;
    int opened = feed_open(&feed, &options);
    if (opened != 0)
        fail_msg("feed_open: %d %s", opened, feed_strerror(feed));
    return feed;
}

#endif
