// Frames and messages, both ways: bytes come from a socket in pieces, are cut into frames, decoded, encoded again and
// sent on.
//
// Input: a byte that says how the stream is cut into pieces, a byte that says how many descriptors come with the first
// piece, and the stream.
#include <sys/socket.h>

#include "proto/codec.h"
#include "tests/fuzz/fuzz.h"

struct stream {
    int near, far;
    struct frame_reader reader;
    struct frame_writer writer; // what was decoded, encoded again
    struct codec_arena arena;
    uint32_t sent;
};

static void send_again(struct stream *stream, const ProtobufCMessage *message, int fd) {
    size_t pending = frame_pending(&stream->writer);
    bool attached = fd >= 0 && frame_attach_fd(&stream->writer, fd) == 0;
    int err = codec_send(&stream->writer, message, 4 * PROTO_MAX_MESSAGE);
    if (err && attached)
        frame_drop_fds(&stream->writer);
    FUZZ_CHECK(err == 0 || frame_pending(&stream->writer) == pending);
    stream->sent += err == 0;
}

static const void *member(const ProtobufCMessage *message, unsigned offset) {
    return (const char *)message + offset;
}

// Whether it, or a message in it, has a field with the number 0, which no message may have: libprotobuf-c takes it
// where the number is written in two bytes, and writes it in one, which it does not take.
static bool has_field_zero(const ProtobufCMessage *message) { // NOLINT(misc-no-recursion): few levels
    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        if (message->unknown_fields[i].tag == 0)
            return true;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        if (field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        ProtobufCMessage *const *parts = member(message, field->offset);
        size_t count = 1;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            parts = *(ProtobufCMessage * *const *)member(message, field->offset);
            count = *(const size_t *)member(message, field->quantifier_offset);
        } else if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
                   *(const uint32_t *)member(message, field->quantifier_offset) != field->id) {
            continue;
        }
        for (size_t k = 0; k < count; k++)
            if (parts[k] && has_field_zero(parts[k]))
                return true;
    }
    return false;
}

static void take_frames(struct stream *stream) {
    const uint8_t *bytes;
    size_t count;
    int next;
    while ((next = frame_next(&stream->reader, &bytes, &count)) == 1) {
        FUZZ_CHECK(count <= PROTO_MAX_MESSAGE);
        const Feedd__ClientMessage *question = codec_unpack_client(&stream->arena, bytes, count);
        if (question && !has_field_zero(&question->base))
            send_again(stream, &question->base, -1);
        const Feedd__ServerMessage *answer = codec_unpack_server(&stream->arena, bytes, count);
        int fd = answer ? frame_take_fd(&stream->reader) : -1;
        if (answer && !has_field_zero(&answer->base))
            send_again(stream, &answer->base, fd);
        close_fd(&fd);
    }
    FUZZ_CHECK(next == 0 || next == -EMSGSIZE || next == -EPROTO);
}

static void send_piece(struct stream *stream, const uint8_t *bytes, size_t count, uint32_t descriptors) {
    int fds[FDPASS_MOST];
    for (uint32_t i = 0; i < descriptors; i++)
        fds[i] = STDERR_FILENO;
    fdpass_send(stream->far, bytes, count, lend_fds(fds, descriptors), MSG_DONTWAIT);
}

static void receive(struct stream *stream) {
    ssize_t got;
    while ((got = frame_read(&stream->reader, stream->near)) > 0)
        take_frames(stream);
    if (stream->reader.closed)
        take_frames(stream);
}

// All that was sent again arrives, and is what a decoder takes.
static void check_sent(struct stream *stream) {
    struct frame_reader reader = {0};
    const uint8_t *bytes;
    size_t count;
    int sockets[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    for (uint32_t frames = 0; frames < stream->sent;) {
        int err = frame_flush(&stream->writer, sockets[0]);
        FUZZ_CHECK(err == 0 || err == -EAGAIN);
        FUZZ_CHECK(frame_read(&reader, sockets[1]) > 0);
        for (; frame_next(&reader, &bytes, &count) == 1; frames++)
            FUZZ_CHECK(codec_unpack_client(&stream->arena, bytes, count) ||
                       codec_unpack_server(&stream->arena, bytes, count));
        for (int fd; (fd = frame_take_fd(&reader)) >= 0;)
            close(fd);
    }
    frame_reader_free(&reader);
    close(sockets[0]);
    close(sockets[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct stream stream = {0};
    int sockets[2], before = fuzz_free_descriptor();
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    stream.near = sockets[0];
    stream.far = sockets[1];
    size_t piece = fuzz_byte(&input);
    piece = piece ? max_u64(piece, size / 64) : 1u << 16; // not too many calls of the kernel
    uint32_t descriptors = fuzz_byte(&input) % (FDPASS_MOST + 1);
    while (input.left) {
        const uint8_t *bytes;
        size_t count = fuzz_bytes(&input, &bytes, piece);
        send_piece(&stream, bytes, count, descriptors);
        receive(&stream);
        descriptors = 0;
    }
    close_fd(&stream.far);
    receive(&stream);
    close_fd(&stream.near);
    check_sent(&stream);
    frame_reader_free(&stream.reader);
    frame_writer_free(&stream.writer);
    codec_arena_free(&stream.arena);
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}
