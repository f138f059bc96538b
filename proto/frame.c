#include "proto/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fdpass.h"
#include "base/sizes.h"

// Two of the largest frames: after whole frames have been taken, what is left is less than one, so that there
// is always room to read on.
#define READ_BYTES (2 * (PROTO_MAX_MESSAGE + PROTO_FRAME_HEADER))

// ---- Receiving ----------------------------------------------------------------------------------

static void compact(struct frame_reader *reader) {
    if (reader->start > 0 && reader->end > reader->start)
        memmove(reader->buffer, reader->buffer + reader->start, reader->end - reader->start);
    reader->end -= reader->start;
    reader->start = 0;
}

ssize_t frame_read(struct frame_reader *reader, int socket) {
    if (!reader->buffer && !(reader->buffer = malloc(READ_BYTES)))
        return -ENOMEM;
    compact(reader);
    if (reader->end == READ_BYTES)
        return -ENOBUFS; // the caller does not take its frames

    struct received_fds received = receive_into(reader->fds, COUNT_OF(reader->fds));
    received.count = reader->fd_count;
    ssize_t got =
        fdpass_receive(socket, reader->buffer + reader->end, READ_BYTES - reader->end, &received, NULL);
    reader->fd_count = received.count;
    if (got < 0)
        return got;
    // Lost: this process can have no more. There was room for all of them, unless the caller has read on after -EPROTO.
    if (reader->fd_count > FRAME_FDS_MOST)
        return -EPROTO;
    if (received.lost)
        return -EMFILE;
    if (got == 0)
        reader->closed = true;
    reader->end += (size_t)got;
    return got;
}

int frame_next(struct frame_reader *reader, const uint8_t **message, size_t *bytes) {
    size_t available = reader->end - reader->start;
    int incomplete = reader->closed && available > 0 ? -EPROTO : 0;
    if (available < PROTO_FRAME_HEADER)
        return incomplete;

    const uint8_t *header = reader->buffer + reader->start;
    uint32_t length = (uint32_t)header[0] | (uint32_t)header[1] << 8 | (uint32_t)header[2] << 16 |
                      (uint32_t)header[3] << 24;
    if (length > PROTO_MAX_MESSAGE)
        return -EMSGSIZE;
    if (available - PROTO_FRAME_HEADER < length)
        return incomplete;

    *message = header + PROTO_FRAME_HEADER;
    *bytes = length;
    reader->start += PROTO_FRAME_HEADER + length;
    return 1;
}

void frame_put_back(struct frame_reader *reader, size_t bytes) {
    reader->start -= PROTO_FRAME_HEADER + bytes;
}

int frame_take_fd(struct frame_reader *reader) {
    if (reader->fd_count == 0)
        return -1;
    int fd = reader->fds[0];
    reader->fd_count--;
    memmove(reader->fds, reader->fds + 1, reader->fd_count * sizeof reader->fds[0]);
    return fd;
}

void frame_reader_free(struct frame_reader *reader) {
    for (uint32_t i = 0; i < reader->fd_count; i++)
        close(reader->fds[i]);
    free(reader->buffer);
    *reader = (struct frame_reader){0};
}

// ---- Sending ------------------------------------------------------------------------------------

// Room for `bytes` after the unsent ones.
static bool make_room(struct frame_writer *writer, size_t bytes) {
    size_t pending = frame_pending(writer);
    if (writer->capacity - writer->end >= bytes)
        return true;
    if (writer->capacity - pending < bytes) {
        size_t capacity = writer->capacity ? writer->capacity : 4096;
        while (capacity - pending < bytes)
            capacity *= 2;
        uint8_t *grown = realloc(writer->buffer, capacity);
        if (!grown)
            return false;
        writer->buffer = grown;
        writer->capacity = capacity;
    }
    memmove(writer->buffer, writer->buffer + writer->start, pending);
    writer->start = 0;
    writer->end = pending;
    return true;
}

uint8_t *frame_reserve(struct frame_writer *writer, size_t bytes, size_t limit) {
    if (bytes > PROTO_MAX_MESSAGE)
        return NULL;
    size_t frame = PROTO_FRAME_HEADER + bytes;
    size_t pending = frame_pending(writer);
    if (pending > limit || frame > limit - pending || !make_room(writer, frame))
        return NULL;

    uint8_t *header = writer->buffer + writer->end;
    for (unsigned i = 0; i < PROTO_FRAME_HEADER; i++)
        header[i] = (uint8_t)(bytes >> (8 * i));
    writer->end += frame;
    return header + PROTO_FRAME_HEADER;
}

static void close_descriptors(struct frame_writer *writer) {
    while (writer->fd_count)
        close(writer->fds[--writer->fd_count]);
}

int frame_attach_fd(struct frame_writer *writer, int fd) {
    size_t at = writer->sent + frame_pending(writer);
    if (writer->fd_count && writer->fd_at != at)
        return -EBUSY;
    if (writer->fd_count == PROTO_MAX_DESCRIPTORS)
        return -E2BIG;
    int duplicate = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0)
        return -errno;
    writer->fds[writer->fd_count++] = duplicate;
    writer->fd_at = at;
    return 0;
}

void frame_drop_fds(struct frame_writer *writer) {
    if (writer->fd_count && writer->fd_at == writer->sent + frame_pending(writer))
        close_descriptors(writer);
}

// One sendmsg of what may go together: never past the byte that a descriptor belongs to.
static ssize_t send_some(const struct frame_writer *writer, int socket, bool *with_fds) {
    size_t bytes = frame_pending(writer);
    struct lent_fds lent = lend_no_fds();
    *with_fds = writer->fd_count && writer->fd_at == writer->sent;
    if (*with_fds)
        lent = lend_fds(writer->fds, writer->fd_count);
    else if (writer->fd_count)
        bytes = min_u64(bytes, writer->fd_at - writer->sent);
    return fdpass_send(socket, writer->buffer + writer->start, bytes, lent, MSG_DONTWAIT);
}

int frame_flush(struct frame_writer *writer, int socket) {
    while (frame_pending(writer) > 0) {
        bool with_fds;
        ssize_t sent = send_some(writer, socket, &with_fds);
        if (sent < 0)
            return (int)sent;
        if (with_fds)
            close_descriptors(writer);
        writer->start += (size_t)sent;
        writer->sent += (size_t)sent;
    }
    writer->start = writer->end = 0;
    return 0;
}

void frame_writer_free(struct frame_writer *writer) {
    close_descriptors(writer);
    free(writer->buffer);
    *writer = (struct frame_writer){0};
}
