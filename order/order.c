// The permutation: a keyed Feistel network over the smallest power-of-two domain that holds all samples
// (never below 2^8), with cycle walking for what lands outside. Unsigned 64-bit arithmetic alone.
#include "order/order.h"

#include <stdbool.h>

#include "base/sizes.h"
#include "order/order_kernels.h"
#include "order/splitmix.h"

enum {
    // 8 rounds are the fewest that leave no trace in 10 thousand permutations of 2^8 samples. On a domain of
    // 2^4 those 8 do leave one in 4 million permutations of 3 to 8 samples, and 12 leave none in 8 million:
    // the rest is margin.
    ROUNDS = 12,
    FLOOR_BITS = 8,
    PENDING = 64, // positions in flight in order_samples
};

_Static_assert(COUNT_OF(((struct order *)0)->keys) == ROUNDS, "one key a round");
_Static_assert(PENDING % ORDER_LANES_MOST == 0, "lanes go in groups");

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

// Keeps PENDING positions in flight: those that landed on a sample make room for the next ones, the others
// walk on. There is no branch on a value, which the processor could only guess. The positions are first, first + 1, ...
// or, to be gathered, those that `samples` holds at first. All of them lie in the epoch: a walk that starts outside
// might never come inside. Inlined with a constant `gathered`.
static inline __attribute__((always_inline)) void
shuffle(const struct order *order, uint64_t first, uint32_t count, uint64_t *samples, const bool gathered) {
    const struct order_kernel *kernel = order_kernel(0);
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
        for (uint32_t at = 0; at < pending; at += kernel->lanes)
            kernel->permute(order, values + at);
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
        value = order_permute(order, value);
    while (value >= order->samples);
    return value;
}
