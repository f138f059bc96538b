// Who is served next among sources with weights: earliest deadline first, the inner loop of order/mix.c.
//
// Draw number k (from 0) of a source with weight w among weights with the total W must be made in a window of slots,
//     FULL:  from floor(k W / w)        to before ceil((k + 1) W / w)
//     INNER: from floor(k W / w + 1/2)  to before ceil((k + 1) W / w - 1/2)
// In each slot, of the sources whose next draw's window has begun, the one whose window ends first is served, and of
// those with the same end the one with the lowest number. The caller passes the slots in ascending order and may
// leave some out; order/README.md says when every draw is then made in its window.
#ifndef FEEDD_ORDER_MIX_SCHEDULE_H
#define FEEDD_ORDER_MIX_SCHEDULE_H

#include <stdint.h>

#define MIX_MAX_SOURCES 256

enum mix_window {
    MIX_WINDOW_FULL = 0,
    MIX_WINDOW_INNER = 1,
};

// Keys in ascending order: a time, and below it the number of a source.
struct mix_heap {
    uint32_t count;
    uint64_t keys[MIX_MAX_SOURCES];
};

// Plain data. Times and totals are below 2^32.
struct mix_schedule {
    enum mix_window window;
    uint64_t total;
    const uint32_t *weights;         // by source
    uint32_t drawn[MIX_MAX_SOURCES]; // by source: how often it was served
    uint64_t begin[MIX_MAX_SOURCES]; // of the window after that of the next draw
    struct mix_heap ready;           // sources whose window has begun, by its end
    struct mix_heap waiting;         // the others, by the begin of their window
};

// Makes the `members` of `schedule` those that are served next, whose weights are weights[member] >= 1. window,
// total, weights and drawn are set: what each of them has been served before. `weights` must outlive the schedule.
void mix_schedule_start(struct mix_schedule *schedule, const uint8_t *members, uint32_t count);

// The source that is served in `slot`. There must be one whose window has begun.
uint32_t mix_schedule_draw(struct mix_schedule *schedule, uint64_t slot);

#endif
