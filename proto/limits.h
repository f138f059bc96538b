// Limits of the protocol. Both sides refuse anything beyond them.
#ifndef FEEDD_PROTO_LIMITS_H
#define FEEDD_PROTO_LIMITS_H

#include "base/names.h"

#define PROTO_VERSION          1u
#define PROTO_MAX_MESSAGE      65536u           // bytes of one protobuf message
#define PROTO_FRAME_HEADER     4u               // little-endian length in front of it
#define PROTO_MAX_DESCRIPTORS  4u               // with one message
#define PROTO_MAX_GRANTS       256u             // slots in one Grant or Release
#define PROTO_MAX_NAME         NAME_LENGTH_MAX  // dataset, share and client names
#define PROTO_PIECE_WORDS      8000u            // in a Piece, but in the last one
#define PROTO_TIMES_WORDS(of)  (((of) + 1) / 2) // for how often each of so many samples counts: 32 bits each
#define PROTO_HELLO_TIMEOUT_MS 5000u            // a session that has not said hello by then is closed
#define PROTO_DEFAULT_SOCKET   "/run/feedd/feedd.sock"

#endif
