// Frames on a stream socket: a little-endian 32-bit length, then that many bytes of one protobuf message, at most
// PROTO_MAX_MESSAGE. Descriptors are sent with the first byte of their frame. This only buffers; waiting is up to the
// caller. Used by both sides.
#ifndef FEEDD_PROTO_FRAME_H
#define FEEDD_PROTO_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fdpass.h"
#include "base/scope.h"
#include "proto/limits.h"

// ---- Receiving ----------------------------------------------------------------------------------

// Descriptors that a reader holds at most: those of a frame that has not come whole, and those of the next one, which
// come with the rest.
#define FRAME_FDS_MOST (2 * PROTO_MAX_DESCRIPTORS)

// Frames and descriptors that have arrived. Zero-initialise; 128 KiB are allocated at the first read.
struct frame_reader {
    uint8_t *buffer;
    size_t start, end;                     // unread bytes
    int fds[FRAME_FDS_MOST + FDPASS_MOST]; // has room for unexpected ones, beyond what the protocol allows
    uint32_t fd_count;
    bool closed; // the peer has shut down
};

// Reads what the socket has, without waiting. >0: bytes; 0: the peer has closed; -EAGAIN: nothing there; -ENOBUFS: two
// frames' worth of bytes are waiting for frame_next; -EPROTO: more descriptors than the protocol allows (fd_count says
// how many are held); -EMFILE: this process cannot have more descriptors; or another errno of recvmsg.
//
// It never closes a descriptor, because that can block: they stay here until they are taken or freed. A caller that
// must not block and receives descriptors from strangers empties `fds` itself and stops reading.
ssize_t frame_read(struct frame_reader *reader, int socket);

// The next whole frame. 1: message points into the buffer, valid until the next frame_read; 0: not yet; -EMSGSIZE: a
// length beyond the limit; -EPROTO: a torn frame (the peer closed in the middle of it).
int frame_next(struct frame_reader *reader, const uint8_t **message, size_t *bytes);
// Makes frame_next return the message of `bytes` bytes again that it has just returned.
void frame_put_back(struct frame_reader *reader, size_t bytes);

// Takes over the oldest received descriptor, or returns -1. frame_reader_free closes those not taken. A side that
// expects none checks fd_count after frame_read and ends the session if it is not 0.
int frame_take_fd(struct frame_reader *reader);

void frame_reader_free(struct frame_reader *reader);

// ---- Sending ------------------------------------------------------------------------------------

// Bytes that the socket has not accepted yet. Zero-initialise.
struct frame_writer {
    uint8_t *buffer;
    size_t start, end, capacity;
    int fds[PROTO_MAX_DESCRIPTORS]; // duplicates, to be sent with the byte at fd_at
    uint32_t fd_count;
    size_t fd_at; // position in the stream, counted like `sent`
    size_t sent;  // bytes sent since the beginning
};

// Reserves room for a frame of `bytes` and returns where the message goes, or NULL if the unsent bytes would exceed
// `limit` (a client that never reads) or memory runs out.
uint8_t *frame_reserve(struct frame_writer *writer, size_t bytes, size_t limit);

// Adds a descriptor, which is duplicated, to the frame that is reserved next. -EBUSY: descriptors of another frame are
// still unsent; -E2BIG: the frame has PROTO_MAX_DESCRIPTORS already.
int frame_attach_fd(struct frame_writer *writer, int fd);

// Drops the descriptors added for the frame that is reserved next.
void frame_drop_fds(struct frame_writer *writer);

// Writes as much as the socket accepts. 0: all is sent; -EAGAIN: some is left; or another errno of sendmsg. Never
// raises SIGPIPE.
int frame_flush(struct frame_writer *writer, int socket);

static inline size_t frame_pending(const struct frame_writer *writer) {
    return writer->end - writer->start;
}

void frame_writer_free(struct frame_writer *writer);

#endif
