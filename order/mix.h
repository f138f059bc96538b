// Mixtures of sources by weight: which source the sample at a position comes from, and how many samples that source
// gave before. A pure function of weights and position, the same on every machine and in every version (a change is a
// new MIX_* version, and tests/unit pins each version with golden vectors). order/README.md defines the function and
// proves what is promised here. With W the total of the weights without their common factor:
//
// - Before any position n, a source with weight w has given more than n w / W - 1 and fewer than n w / W + 1 samples.
// - Before a multiple of W it has given exactly n w / W, and from there on everything repeats.
#ifndef FEEDD_ORDER_MIX_H
#define FEEDD_ORDER_MIX_H

#include "base/error.h"
#include "order/mix_schedule.h"

enum mix_version {
    MIX_1 = 1, // earliest deadline first, after slots for the lightest sources
};

#define MIX_MAX_TOTAL 1000000000u
#define MIX_LISTED    (1u << 18) // the most that the weights of the lightest sources add up to

// No source: what stands at a position before the start of a mixture or after position 2^64-1.
#define MIX_NO_SOURCE UINT32_MAX

struct mix_draw {
    uint64_t number; // of this source's samples before this one; UINT64_MAX with MIX_NO_SOURCE
    uint32_t source; // by its place in `weights`
    uint32_t reserved;
};

// Where a mixture starts: at this position of the run, after so many samples of each source.
struct mix_base {
    uint64_t start;
    uint64_t drawn[MIX_MAX_SOURCES];
};

struct mix; // immutable; threads may share it. At most MIX_LISTED bytes and a few KiB
struct
    mix_cursor; // looks a mixture up from one thread at a time. 10 KiB and 2 bytes for each slot of mix_lookback

// Only the ratio of the weights counts. `version` is the caller's, for instance from a resume token. Takes up to a
// few dozen nanoseconds for each of at most MIX_LISTED draws. -EINVAL, with a sentence, for an unknown version, fewer
// than 1 or more than MIX_MAX_SOURCES sources, or a weight of 0; -ERANGE, with a sentence, for a W above
// MIX_MAX_TOTAL; -ENOMEM.
int mix_open(enum mix_version version, const uint32_t *weights, uint32_t sources, struct mix **mix,
             struct error *error);

// For tests: MIX_1 with another value of MIX_LISTED, which is another function.
int mix_open_listed(const uint32_t *weights, uint32_t sources, uint32_t listed, struct mix **mix,
                    struct error *error);

// NULL is ignored.
void mix_close(struct mix *mix);

// A cursor at the start of the mixture, which must outlive it. `base` is copied; NULL stands for zeros. -EINVAL, with
// a sentence, for a base whose sources gave more samples than there are positions before its start; -ENOMEM.
int mix_cursor_open(const struct mix *mix, const struct mix_base *base, struct mix_cursor **cursor,
                    struct error *error);

// NULL is ignored.
void mix_cursor_close(struct mix_cursor *cursor);

// What stands at positions first..first+count-1 of the run; the same whatever the cursor was asked before. Positions
// that follow those of the previous call cost a few dozen nanoseconds each. To go elsewhere costs a few dozen
// microseconds more, and a nanosecond or two for each slot of mix_lookback; while W is at most MIX_LISTED, nothing.
void mix_draws(struct mix_cursor *cursor, uint64_t first, uint32_t count, struct mix_draw *draws);

// The most slots that are looked at to find a position that does not follow the last one: 0 while W is at most
// MIX_LISTED, else less than sources * W / MIX_LISTED + 1.
uint64_t mix_lookback(const struct mix *mix);

// How many samples each source has given before `position`, as a base that starts there: what a resume token says,
// and where a mixture with other weights continues, each source from its own count. `drawn` beyond the mixture's
// sources is 0. Costs a lookup and up to a few hundred microseconds. -ERANGE for a position before the start; `base`
// is untouched then.
//
// The same weights after a base are a mixture that starts anew, whose order differs from the one that was left. To
// resume with the same weights, keep the base that the mixture started from and the position.
int mix_base_at(struct mix_cursor *cursor, uint64_t position, struct mix_base *base);

// Each source has epochs of its own: where the sample `number` of a source with `samples` >= 1 samples stands.
struct mix_place {
    uint64_t epoch;
    uint64_t position;
};
static inline struct mix_place mix_place(uint64_t number, uint64_t samples) {
    return (struct mix_place){.epoch = number / samples, .position = number % samples};
}

#endif
