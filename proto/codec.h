// Packs and unpacks messages; nothing else calls the generated code. Unpacking allocates from a bounded arena, so a
// hostile message costs at most PROTO_ARENA_BYTES.
#ifndef FEEDD_PROTO_CODEC_H
#define FEEDD_PROTO_CODEC_H

#include "feed.pb-c.h"
#include "proto/frame.h"

#define PROTO_ARENA_BYTES (1u << 20)

// Reused from message to message; zero-initialise.
struct codec_arena {
    uint8_t *memory;
    size_t used;
};

// The message, with a body that this build knows; valid until the next unpack with the same arena. NULL for bytes that
// are not a message, have no known body, or list more than PROTO_MAX_GRANTS slots, and if there is no memory.
const Feedd__ClientMessage *codec_unpack_client(struct codec_arena *arena, const uint8_t *bytes,
                                                size_t count);
const Feedd__ServerMessage *codec_unpack_server(struct codec_arena *arena, const uint8_t *bytes,
                                                size_t count);
static inline bool codec_has_memory(const struct codec_arena *arena) {
    return arena->memory != NULL;
}
void codec_arena_free(struct codec_arena *arena);

// Appends a frame. -EMSGSIZE: longer than PROTO_MAX_MESSAGE; -ENOBUFS: more than `limit` bytes would be unsent.
int codec_send(struct frame_writer *writer, const ProtobufCMessage *message, size_t limit);

#endif
