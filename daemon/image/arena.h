// Memory for what a library allocates for one image: all of it is given back at once, and stays for the next image. A
// zeroed arena is empty.
#ifndef FEEDD_DAEMON_IMAGE_ARENA_H
#define FEEDD_DAEMON_IMAGE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct image_arena {
    struct arena_block *blocks; // the newest first
    size_t used;                // of the newest
    size_t total;               // of all
};

// Aligned for anything the libraries have, vectors included; NULL: no memory.
void *image_arena_take(struct image_arena *arena, size_t size);

// What was taken last, if `memory` is that, can be taken again at once; anything else waits for image_arena_reset().
void image_arena_return(struct image_arena *arena, void *memory);

// Ends the life of all that was taken. One block that is as large as all of them stays, unless it is larger than
// IMAGE_SCRATCH_KEPT.
void image_arena_reset(struct image_arena *arena);

void image_arena_free(struct image_arena *arena);

#endif
