#include "shm/holes.h"

#include "base/sizes.h"

struct holes holes_of(const _Atomic uint64_t *skips, uint32_t good, uint32_t dispatched) {
    return (struct holes){.skips = skips, .good = good, .dispatched = dispatched, .next_source = good};
}

// The first place from `from` on, below `end`, whose bit is `skipped`; `end` if there is none.
static uint32_t find(const _Atomic uint64_t *skips, bool skipped, uint32_t from, uint32_t end) {
    uint64_t place = from; // the end of the last word can be beyond 32 bits
    while (place < end) {
        // Relaxed: whoever walks has acquired the words with the chunks they belong to.
        uint64_t word = atomic_load_explicit(&skips[place / 64], memory_order_relaxed);
        uint64_t rest = (skipped ? word : ~word) >> (place % 64);
        if (rest)
            return (uint32_t)min_u64(end, place + (uint32_t)__builtin_ctzll(rest));
        place = (place / 64 + 1) * 64;
    }
    return end;
}

bool holes_next(struct holes *holes) {
    holes->hole = find(holes->skips, true, holes->next_hole, holes->good);
    holes->source = find(holes->skips, false, holes->next_source, holes->dispatched);
    holes->next_hole = holes->hole + 1;
    holes->next_source = holes->source + 1;
    return holes->hole < holes->good && holes->source < holes->dispatched;
}

uint32_t hole_source(const _Atomic uint64_t *skips, uint32_t good, uint32_t dispatched, uint32_t place) {
    if (place >= good || good > dispatched)
        return UINT32_MAX;
    if (!hole_at(skips, place))
        return place;
    struct holes holes = holes_of(skips, good, dispatched);
    while (holes_next(&holes))
        if (holes.hole == place)
            return holes.source;
    return UINT32_MAX;
}

uint32_t hole_source_in_order(const _Atomic uint64_t *skips, uint32_t good, uint32_t dispatched,
                              uint32_t place) {
    if (place >= good || good > dispatched)
        return UINT32_MAX;
    for (uint32_t first = 0; first < dispatched; first += 64) {
        uint64_t readable = ~atomic_load_explicit(&skips[first / 64], memory_order_relaxed);
        uint32_t count = (uint32_t)__builtin_popcountll(readable);
        if (place >= count) {
            place -= count;
            continue;
        }
        while (place-- > 0)
            readable &= readable - 1;
        uint32_t source = first + (uint32_t)__builtin_ctzll(readable);
        return source < dispatched ? source : UINT32_MAX;
    }
    return UINT32_MAX;
}
