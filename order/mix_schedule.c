#include "order/mix_schedule.h"

#include "base/sizes.h"

#define SOURCE_BITS 8

_Static_assert(MIX_MAX_SOURCES <= 1 << SOURCE_BITS, "a key has room for any source");

// Puts `key` into the hole at `at`, or above it.
static void rise(uint64_t *keys, uint32_t at, uint64_t key) {
    while (at > 0) {
        const uint32_t parent = (at - 1) / 2;
        if (keys[parent] <= key)
            break;
        keys[at] = keys[parent];
        at = parent;
    }
    keys[at] = key;
}

static void heap_push(struct mix_heap *heap, uint64_t key) {
    rise(heap->keys, heap->count++, key);
}

// Moves the hole at the top down to a leaf, and the last key up from there: it nearly always belongs near the bottom.
// The choice of a child is arithmetic, since the processor could not guess a branch.
static uint64_t heap_pop(struct mix_heap *heap) {
    uint64_t *keys = heap->keys;
    const uint64_t first = keys[0], last = keys[--heap->count];
    const uint32_t count = heap->count;
    uint32_t at = 0, child = 1;
    for (; child + 1 < count; child = 2 * at + 1) {
        child += keys[child + 1] < keys[child];
        keys[at] = keys[child];
        at = child;
    }
    if (child < count) {
        keys[at] = keys[child];
        at = child;
    }
    rise(keys, at, last);
    return first;
}

struct border {
    uint64_t end;   // of the window of the draw before
    uint64_t begin; // of the window of this one
};

// INNER windows are FULL ones with half a slot less on either side, so one division yields both.
static struct border border_before(const struct mix_schedule *schedule, uint32_t source, uint64_t number) {
    const uint64_t inner = schedule->window == MIX_WINDOW_INNER, weight = schedule->weights[source];
    const uint64_t twice = 2 * number * schedule->total + inner * weight;
    const uint64_t begin = twice / (2 * weight), rest = twice % (2 * weight);
    return (struct border){.end = begin - inner + (rest != 0), .begin = begin};
}

static void wait_until(struct mix_schedule *schedule, uint64_t begin, uint32_t source) {
    heap_push(&schedule->waiting, begin << SOURCE_BITS | source);
}

// The window of the next draw has begun.
static void make_ready(struct mix_schedule *schedule, uint32_t source) {
    const struct border border = border_before(schedule, source, schedule->drawn[source] + UINT64_C(1));
    schedule->begin[source] = border.begin;
    heap_push(&schedule->ready, border.end << SOURCE_BITS | source);
}

void mix_schedule_start(struct mix_schedule *schedule, const uint8_t *members, uint32_t count) {
    schedule->ready.count = schedule->waiting.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t source = members[i];
        wait_until(schedule, border_before(schedule, source, schedule->drawn[source]).begin, source);
    }
}

uint32_t mix_schedule_draw(struct mix_schedule *schedule, uint64_t slot) {
    const uint64_t begun = (slot + 1) << SOURCE_BITS;
    while (schedule->waiting.count && schedule->waiting.keys[0] < begun)
        make_ready(schedule, (uint32_t)heap_pop(&schedule->waiting) % (1u << SOURCE_BITS));
    const uint32_t source = (uint32_t)heap_pop(&schedule->ready) % (1u << SOURCE_BITS);
    schedule->drawn[source]++;
    wait_until(schedule, schedule->begin[source], source);
    return source;
}
