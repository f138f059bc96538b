// A fixed amount of memory, cut into pieces of any size: first fit, and neighbours that are free become one.
#ifndef FEEDD_DAEMON_LOADER_BLOCK_ARENA_H
#define FEEDD_DAEMON_LOADER_BLOCK_ARENA_H

#include <sys/queue.h>

#include "base/error.h"

// Pieces follow each other in memory. A piece begins at a multiple of a cache line.
struct arena_piece {
    TAILQ_ENTRY(arena_piece) place; // in memory
    LIST_ENTRY(arena_piece) free;   // or unused
    uint8_t *memory;
    uint64_t bytes;
    bool taken;
};

struct arena {
    uint8_t *memory;
    uint64_t bytes;
    TAILQ_HEAD(arena_pieces, arena_piece) pieces;
    LIST_HEAD(, arena_piece) free;
    LIST_HEAD(, arena_piece) unused; // descriptions without memory
    struct arena_piece *descriptions;
    bool mapped; // the memory is the arena's own
};

// At most `most` pieces can be taken at once. Memory that is never touched costs nothing.
int arena_open(struct arena *arena, uint64_t bytes, uint32_t most, struct error *error);

// The same in memory of somebody else's, which begins at a multiple of a cache line and outlives the arena.
int arena_open_in(struct arena *arena, uint8_t *memory, uint64_t bytes, uint32_t most, struct error *error);
void arena_close(struct arena *arena);

// NULL: there is no room for as many bytes in one piece.
struct arena_piece *arena_take(struct arena *arena, uint64_t bytes);

// Returns how many bytes are free in one piece where it was.
uint64_t arena_give(struct arena *arena, struct arena_piece *piece);

#endif
