// Frames on a stream socket: a little-endian 32-bit length, then that many bytes of one protobuf message, at
// most PROTO_MAX_MESSAGE; descriptors travel with the first byte of the frame they belong to. Pure buffering:
// the caller does the waiting. Used by both sides.
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

// Frames and descriptors that have arrived. Zero-initialise; 128 KiB are allocated at the first read.
struct frame_reader {
    uint8_t *buffer;
    size_t start, end;                            // unread bytes
    int fds[PROTO_MAX_DESCRIPTORS + FDPASS_MOST]; // more than the protocol knows: those that nobody asked for
    uint32_t fd_count;
    bool closed; // the peer has shut down
};

// Takes what the socket has, without waiting. >0 bytes, 0 the peer has closed, -EAGAIN nothing there, -ENOBUFS two
// frames' worth of bytes are waiting for frame_next, -EPROTO more descriptors than the protocol knows (fd_count
// says how many are held), -EMFILE this process can have no more descriptors, or another errno of recvmsg.
//
// It closes no descriptor, since that can block: they stay here until they are taken or freed. A side that may not
// block and gets descriptors from strangers empties `fds` itself, and reads no further.
ssize_t frame_read(struct frame_reader *reader, int socket);

// The next whole frame: 1 (message points into the buffer, valid until the next frame_read), 0 not yet,
// -EMSGSIZE a length beyond the limit, -EPROTO a torn frame (the peer closed within it).
int frame_next(struct frame_reader *reader, const uint8_t **message, size_t *bytes);

// Takes over the oldest received descriptor, or -1. Those not taken are closed by frame_reader_free. A side that
// asked for none looks at fd_count after frame_read and ends the session when it is not 0.
int frame_take_fd(struct frame_reader *reader);

void frame_reader_free(struct frame_reader *reader);

// ---- Sending ------------------------------------------------------------------------------------

// Bytes that wait for the socket to take them. Zero-initialise.
struct frame_writer {
    uint8_t *buffer;
    size_t start, end, capacity;
    int fds[PROTO_MAX_DESCRIPTORS]; // duplicates, to be sent with the byte at fd_at
    uint32_t fd_count;
    size_t fd_at; // absolute position in `sent` terms
    size_t sent;  // bytes sent since the beginning
};

// Reserves room for a frame of `bytes` and returns where the message goes, or NULL when the unsent bytes
// would exceed `limit` (a client that never reads) or memory is out.
uint8_t *frame_reserve(struct frame_writer *writer, size_t bytes, size_t limit);

// Sends one more descriptor with the frame reserved next. It is duplicated. -EBUSY while those of another frame wait,
// -E2BIG when the frame has PROTO_MAX_DESCRIPTORS.
int frame_attach_fd(struct frame_writer *writer, int fd);

// Forgets those that were to go with the frame reserved next.
void frame_drop_fds(struct frame_writer *writer);

// Writes as much as the socket takes. 0 all sent, -EAGAIN more to come, or another errno of sendmsg. Never
// raises SIGPIPE.
int frame_flush(struct frame_writer *writer, int socket);

static inline size_t frame_pending(const struct frame_writer *writer) {
    return writer->end - writer->start;
}

void frame_writer_free(struct frame_writer *writer);

#endif
