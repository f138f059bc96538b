#include "daemon/image/arena.h"

#include <stdlib.h>

#include "base/sizes.h"
#include "daemon/image/scratch.h"

#define ALIGNMENT ((size_t)CACHE_LINE)
#define LEAST     ((size_t)128 << 10)

struct arena_block {
    struct arena_block *older;
    size_t room;
    size_t last; // where what was taken last begins
    _Alignas(CACHE_LINE) uint8_t bytes[];
};

static struct arena_block *make_block(size_t room) {
    struct arena_block *block = aligned_alloc(ALIGNMENT, sizeof *block + room);
    if (block)
        *block = (struct arena_block){.room = room};
    return block;
}

static int add_block(struct image_arena *arena, size_t size) {
    struct arena_block *block =
        make_block(max_u64(size, max_u64(LEAST, arena->total / 2 / ALIGNMENT * ALIGNMENT)));
    if (!block)
        return -1;
    block->older = arena->blocks;
    arena->blocks = block;
    arena->used = 0;
    arena->total += block->room;
    return 0;
}

void *image_arena_take(struct image_arena *arena, size_t size) {
    if (size > SIZE_MAX / 2)
        return NULL;
    size = align_up(size ? size : 1, ALIGNMENT);
    if ((!arena->blocks || arena->blocks->room - arena->used < size) && add_block(arena, size) != 0)
        return NULL;
    void *memory = arena->blocks->bytes + arena->used;
    arena->blocks->last = arena->used;
    arena->used += size;
    return memory;
}

void image_arena_return(struct image_arena *arena, void *memory) {
    if (memory && arena->blocks && memory == arena->blocks->bytes + arena->blocks->last)
        arena->used = arena->blocks->last;
}

void image_arena_reset(struct image_arena *arena) {
    size_t total = arena->total;
    arena->used = 0;
    if (arena->blocks && !arena->blocks->older && total <= IMAGE_SCRATCH_KEPT)
        return;
    image_arena_free(arena);
    if (total && total <= IMAGE_SCRATCH_KEPT)
        add_block(arena, total); // if there is no memory now, there may be when it is needed
}

void image_arena_free(struct image_arena *arena) {
    for (struct arena_block *block = arena->blocks, *older; block; block = older) {
        older = block->older;
        free(block);
    }
    *arena = (struct image_arena){0};
}
