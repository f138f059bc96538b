#include "proto/codec.h"

#include <errno.h>

#include "base/sizes.h"

#define ARENA_ALIGNMENT 16u

static void *arena_allocate(void *context, size_t bytes) {
    struct codec_arena *arena = context;
    if (bytes > PROTO_ARENA_BYTES - arena->used)
        return NULL;
    void *piece = arena->memory + arena->used;
    // Both are multiples of the alignment, so the sum never passes the end.
    arena->used += align_up(bytes, ARENA_ALIGNMENT);
    return piece;
}

static void arena_release(void *context, void *piece) {
    (void)context;
    (void)piece; // the next unpack takes everything back at once
}

static bool arena_begin(struct codec_arena *arena, ProtobufCAllocator *allocator) {
    if (!arena->memory && !(arena->memory = malloc(PROTO_ARENA_BYTES)))
        return false;
    arena->used = 0;
    *allocator = (ProtobufCAllocator){arena_allocate, arena_release, arena};
    return true;
}

void codec_arena_free(struct codec_arena *arena) {
    free(arena->memory);
    *arena = (struct codec_arena){0};
}

const Feedd__ClientMessage *codec_unpack_client(struct codec_arena *arena, const uint8_t *bytes,
                                                size_t count) {
    ProtobufCAllocator allocator;
    if (count > PROTO_MAX_MESSAGE || !arena_begin(arena, &allocator))
        return NULL;
    const Feedd__ClientMessage *message = feedd__client_message__unpack(&allocator, count, bytes);
    if (!message || message->body_case == FEEDD__CLIENT_MESSAGE__BODY__NOT_SET)
        return NULL;
    if (message->body_case == FEEDD__CLIENT_MESSAGE__BODY_RELEASE &&
        message->release->n_slots > PROTO_MAX_GRANTS)
        return NULL;
    return message;
}

const Feedd__ServerMessage *codec_unpack_server(struct codec_arena *arena, const uint8_t *bytes,
                                                size_t count) {
    ProtobufCAllocator allocator;
    if (count > PROTO_MAX_MESSAGE || !arena_begin(arena, &allocator))
        return NULL;
    const Feedd__ServerMessage *message = feedd__server_message__unpack(&allocator, count, bytes);
    if (!message || message->body_case == FEEDD__SERVER_MESSAGE__BODY__NOT_SET)
        return NULL;
    if (message->body_case == FEEDD__SERVER_MESSAGE__BODY_GRANT && message->grant->n_slots > PROTO_MAX_GRANTS)
        return NULL;
    return message;
}

int codec_send(struct frame_writer *writer, const ProtobufCMessage *message, size_t limit) {
    size_t bytes = protobuf_c_message_get_packed_size(message);
    if (bytes > PROTO_MAX_MESSAGE)
        return -EMSGSIZE;
    uint8_t *place = frame_reserve(writer, bytes, limit);
    if (!place)
        return -ENOBUFS;
    protobuf_c_message_pack(message, place);
    return 0;
}
