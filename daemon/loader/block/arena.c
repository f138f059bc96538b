#include "daemon/loader/block/arena.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sizes.h"

int arena_open_in(struct arena *arena, uint8_t *memory, uint64_t bytes, uint32_t most, struct error *error) {
    const uint64_t count = 2ull * most + 1; // between those that are taken, as many can be free
    *arena = (struct arena){.memory = memory, .bytes = bytes};
    TAILQ_INIT(&arena->pieces);
    LIST_INIT(&arena->free);
    LIST_INIT(&arena->unused);
    arena->descriptions = calloc(count, sizeof *arena->descriptions);
    if (!arena->descriptions)
        return error_set(error, -ENOMEM, "no memory to describe %" PRIu32 " blocks", most);
    for (uint64_t i = count; i-- > 1;)
        LIST_INSERT_HEAD(&arena->unused, &arena->descriptions[i], free);
    struct arena_piece *whole = arena->descriptions;
    *whole = (struct arena_piece){.memory = arena->memory, .bytes = bytes};
    TAILQ_INSERT_HEAD(&arena->pieces, whole, place);
    LIST_INSERT_HEAD(&arena->free, whole, free);
    return 0;
}

int arena_open(struct arena *arena, uint64_t bytes, uint32_t most, struct error *error) {
    *arena = (struct arena){0};
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "no memory for %" PRIu64 " bytes of blocks (block_memory): %s", bytes,
                         strerror(errno));
    int err = arena_open_in(arena, memory, bytes, most, error);
    arena->mapped = true;
    return err;
}

void arena_close(struct arena *arena) {
    if (arena->mapped)
        munmap(arena->memory, arena->bytes);
    free(arena->descriptions);
    *arena = (struct arena){0};
}

struct arena_piece *arena_take(struct arena *arena, uint64_t bytes) {
    struct arena_piece *piece, *rest;
    bytes = align_up(max_u64(bytes, 1), CACHE_LINE);
    LIST_FOREACH(piece, &arena->free, free)
        if (piece->bytes >= bytes)
            break;
    if (!piece)
        return NULL;
    LIST_REMOVE(piece, free);
    piece->taken = true;
    rest = LIST_FIRST(&arena->unused);
    if (piece->bytes == bytes || !rest)
        return piece;
    LIST_REMOVE(rest, free);
    *rest = (struct arena_piece){.memory = piece->memory + bytes, .bytes = piece->bytes - bytes};
    piece->bytes = bytes;
    TAILQ_INSERT_AFTER(&arena->pieces, piece, rest, place);
    LIST_INSERT_HEAD(&arena->free, rest, free);
    return piece;
}

// Takes the free piece `next`, which follows, into `piece`.
static void join(struct arena *arena, struct arena_piece *piece, struct arena_piece *next) {
    piece->bytes += next->bytes;
    TAILQ_REMOVE(&arena->pieces, next, place);
    LIST_REMOVE(next, free);
    LIST_INSERT_HEAD(&arena->unused, next, free);
}

uint64_t arena_give(struct arena *arena, struct arena_piece *piece) {
    struct arena_piece *next = TAILQ_NEXT(piece, place), *before = TAILQ_PREV(piece, arena_pieces, place);
    piece->taken = false;
    LIST_INSERT_HEAD(&arena->free, piece, free);
    if (next && !next->taken)
        join(arena, piece, next);
    if (before && !before->taken) {
        join(arena, before, piece);
        piece = before;
    }
    return piece->bytes;
}
