// The permutation: a keyed Feistel network over the smallest power-of-two domain that holds all samples
// (never below 2^8), with cycle walking for what lands outside. Unsigned 64-bit arithmetic alone.
#include "order/order.h"

#include <stdbool.h>

#include "base/sizes.h"
#include "order/splitmix.h"

enum {
    // 8 rounds are the fewest that leave no trace in 10 thousand permutations of 2^8 samples. On a domain of
    // 2^4 those 8 do leave one in 4 million permutations of 3 to 8 samples, and 12 leave none in 8 million:
    // the rest is margin.
    ROUNDS = 12,
    FLOOR_BITS = 8,
    LANES = 8,    // positions computed side by side, so that the multiplications overlap
    PENDING = 64, // positions in flight in order_samples, a multiple of LANES
};

_Static_assert(COUNT_OF(((struct order *)0)->keys) == ROUNDS, "one key a round");
_Static_assert(ROUNDS % 2 == 0 && PENDING % LANES == 0, "rounds go in pairs, lanes in groups");

void order_init(struct order *order, enum order_version version, uint64_t samples, uint64_t seed,
                uint64_t epoch) {
    uint32_t bits = samples > 1 ? 64 - (uint32_t)__builtin_clzll(samples - 1) : 0;
    if (bits < FLOOR_BITS)
        bits = FLOOR_BITS;
    *order = (struct order){
        .samples = samples, .version = version, .left_bits = bits / 2, .right_bits = bits - bits / 2};
    // Each key takes in all three numbers on a path of its own, so two epochs that agree in one key by chance
    // agree in no other; mixing the round number first keeps the keys of one seed from being those of
    // another one, shifted.
    for (uint32_t round = 0; round < ROUNDS; round++)
        order->keys[round] = splitmix64(splitmix64(splitmix64(splitmix64(round) ^ seed) ^ epoch) ^ samples);
}

// The top bits of a product depend on all bits of its factors, hence the shift at the end and not a mask.
static inline uint64_t scramble(uint64_t half, uint64_t key, uint32_t shift) {
    uint64_t word = (half + key) * 0xbf58476d1ce4e5b9u;
    return ((word ^ (word >> 32)) * 0x94d049bb133111ebu) >> shift;
}

// Halves are combined by addition and not by exclusive or, which would make nearly every round, and so the
// whole, an even permutation: in tiny epochs half of all orders would be rare or never come.
// Inlined with a constant number of lanes, so that the loops over lanes dissolve.
static inline __attribute__((always_inline)) void permute(const struct order *order, uint64_t *values,
                                                          const int lanes) {
    const uint32_t right_bits = order->right_bits;
    const uint32_t left_shift = 64 - order->left_bits, right_shift = 64 - right_bits;
    const uint64_t left_mask = UINT64_MAX >> left_shift, right_mask = UINT64_MAX >> right_shift;
    uint64_t left[LANES], right[LANES];
    for (int lane = 0; lane < lanes; lane++) {
        left[lane] = values[lane] >> right_bits;
        right[lane] = values[lane] & right_mask;
    }
    for (int round = 0; round < ROUNDS; round += 2) {
        const uint64_t left_key = order->keys[round], right_key = order->keys[round + 1];
#pragma GCC unroll 8
        for (int lane = 0; lane < lanes; lane++)
            left[lane] = (left[lane] + scramble(right[lane], left_key, left_shift)) & left_mask;
#pragma GCC unroll 8
        for (int lane = 0; lane < lanes; lane++)
            right[lane] = (right[lane] + scramble(left[lane], right_key, right_shift)) & right_mask;
    }
    for (int lane = 0; lane < lanes; lane++)
        values[lane] = left[lane] << right_bits | right[lane];
}

// Keeps PENDING positions in flight: those that landed on a sample make room for the next ones, the others
// walk on. There is no branch on a value, which the processor could only guess. The positions are first, first + 1, ...
// or, to be gathered, those that `samples` holds at first. All of them lie in the epoch: a walk that starts outside
// might never come inside. Inlined with a constant `gathered`.
static inline __attribute__((always_inline)) void
shuffle(const struct order *order, uint64_t first, uint32_t count, uint64_t *samples, const bool gathered) {
    uint64_t values[PENDING] = {0};
    uint32_t places[PENDING];
    uint32_t pending = 0, issued = 0;
    for (;;) {
        for (; pending < PENDING && issued < count; pending++, issued++) {
            values[pending] = gathered ? samples[issued] : first + issued;
            places[pending] = issued;
        }
        if (pending == 0)
            return;
        for (uint32_t at = 0; at < pending; at += LANES)
            permute(order, values + at, LANES);
        uint32_t walking = 0;
        for (uint32_t at = 0; at < pending; at++) {
            const uint64_t value = values[at];
            const uint32_t place = places[at];
            samples[place] = value;
            values[walking] = value;
            places[walking] = place;
            walking += value >= order->samples;
        }
        pending = walking;
    }
}

void order_samples(const struct order *order, uint64_t first, uint32_t count, uint64_t *samples) {
    const uint64_t left = first < order->samples ? order->samples - first : 0;
    const uint32_t inside = (uint32_t)min_u64(count, left);
    for (uint32_t at = inside; at < count; at++)
        samples[at] = UINT64_MAX;
    if (order->version == ORDER_SEQUENTIAL)
        for (uint32_t at = 0; at < inside; at++)
            samples[at] = first + at;
    else
        shuffle(order, first, inside, samples, false);
}

void order_gather(const struct order *order, uint32_t count, uint64_t *positions) {
    for (uint32_t at = 0; at < count;) {
        uint32_t inside = at;
        while (inside < count && positions[inside] < order->samples)
            inside++;
        if (order->version != ORDER_SEQUENTIAL)
            shuffle(order, 0, inside - at, positions + at, true);
        for (at = inside; at < count && positions[at] >= order->samples; at++)
            positions[at] = UINT64_MAX;
    }
}

uint64_t order_sample(const struct order *order, uint64_t position) {
    if (position >= order->samples)
        return UINT64_MAX;
    if (order->version == ORDER_SEQUENTIAL)
        return position;
    uint64_t value = position;
    do
        permute(order, &value, 1);
    while (value >= order->samples);
    return value;
}
