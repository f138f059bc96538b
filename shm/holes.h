// Which sample fills which hole. A batch from which samples were left out as unreadable is made dense by a repair:
// the k-th hole among the first `good` places takes the k-th readable sample after them. Loaders move samples by
// this rule, and clients find out by it which sample is where. With ragged fields, the readable samples keep their
// order instead (ragged_repair.h).
#ifndef FEEDD_SHM_HOLES_H
#define FEEDD_SHM_HOLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// A walk over the holes, from the first to the last.
struct holes {
    const _Atomic uint64_t *skips; // a bit per sample dispatched: it is unreadable
    uint32_t good, dispatched;     // samples that are left; samples dispatched
    // Where holes_next looks next.
    uint32_t next_hole, next_source;
    // After holes_next: the place to be filled, and the place of the sample that fills it.
    uint32_t hole, source;
};

struct holes holes_of(const _Atomic uint64_t *skips, uint32_t good, uint32_t dispatched);

// To the next hole. False after the last one, and when bitmap and counts disagree so that no sample is left for
// it.
bool holes_next(struct holes *holes);

// The place that the sample now at `place` came from. UINT32_MAX if there is no such place, or bitmap and counts
// disagree.
uint32_t hole_source(const _Atomic uint64_t *skips, uint32_t good, uint32_t dispatched, uint32_t place);

// The same with ragged fields.
uint32_t hole_source_in_order(const _Atomic uint64_t *skips, uint32_t good, uint32_t dispatched,
                              uint32_t place);

// Whether the sample dispatched there was skipped. Relaxed: whoever asks has acquired the words with the chunks they
// belong to.
static inline bool hole_at(const _Atomic uint64_t *skips, uint32_t place) {
    return atomic_load_explicit(&skips[place / 64], memory_order_relaxed) >> (place % 64) & 1;
}

#endif
