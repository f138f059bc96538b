// The permutation: a keyed Feistel network over the smallest power-of-two domain that holds all samples
// (never below 2^8), with cycle walking for what lands outside. Unsigned 64-bit arithmetic alone.
#include "order/order.h"

#include <string.h>

#include "base/sizes.h"
#include "order/order_kernels.h"
#include "order/splitmix.h"

enum {
    // 8 rounds are the fewest that leave no trace in 10 thousand permutations of 2^8 samples. On a domain of
    // 2^4 those 8 do leave one in 4 million permutations of 3 to 8 samples, and 12 leave none in 8 million:
    // the rest is margin.
    ROUNDS = 12,
    FLOOR_BITS = 8,
    AT_ONCE = 1024, // positions, of which few walk on in the end,
    ALONE = 3,      // so few that each then does so by itself
};

_Static_assert(COUNT_OF(((struct order *)0)->keys) == ROUNDS, "one key a round");
_Static_assert(AT_ONCE % ORDER_LANES_MOST == 0, "lanes go in groups");

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

// The sample on which the walk from a value of the domain ends.
static uint64_t walk(const struct order *order, uint64_t value) {
    do
        value = order_permute(order, value);
    while (value >= order->samples);
    return value;
}

static void permute(const struct order *order, const struct order_kernel *kernel, uint32_t count,
                    uint64_t *values) {
    const struct order_kernel *narrow = order_kernel_plain();
    uint64_t rest[ORDER_LANES_MOST] = {0};
    uint32_t at = 0;
    for (; count - at >= kernel->lanes; at += kernel->lanes)
        kernel->permute(order, values + at);
    if (at == count)
        return;
    if (count - at <= narrow->lanes) // a wide kernel takes as long for a few as for all of its lanes
        kernel = narrow;
    memcpy(rest, values + at, (count - at) * sizeof *values);
    kernel->permute(order, rest);
    memcpy(values + at, rest, (count - at) * sizeof *values);
}

// Replaces up to AT_ONCE positions, all of which lie in the epoch: a walk that starts outside might never come inside.
// Those that landed outside walk on together. There is no branch on a value, which the processor could only guess.
static void shuffle_some(const struct order *order, const struct order_kernel *kernel, uint32_t count,
                         uint64_t *samples) {
    uint64_t values[AT_ONCE];
    uint32_t places[AT_ONCE]; // of those that walk
    uint32_t walking = 0;
    permute(order, kernel, count, samples);
    for (uint32_t i = 0; i < count; i++) {
        places[walking] = i;
        walking += samples[i] >= order->samples;
    }
    while (walking > ALONE) {
        uint32_t left = 0;
        for (uint32_t i = 0; i < walking; i++)
            values[i] = samples[places[i]];
        permute(order, kernel, walking, values);
        for (uint32_t i = 0; i < walking; i++) {
            const uint32_t place = places[i];
            samples[place] = values[i];
            places[left] = place;
            left += values[i] >= order->samples;
        }
        walking = left;
    }
    for (uint32_t i = 0; i < walking; i++)
        samples[places[i]] = walk(order, samples[places[i]]);
}

static void shuffle(const struct order *order, uint32_t count, uint64_t *samples) {
    const struct order_kernel *kernel = order_kernel(0);
    for (uint32_t at = 0; at < count; at += AT_ONCE)
        shuffle_some(order, kernel, (uint32_t)min_u64(AT_ONCE, count - at), samples + at);
}

void order_samples(const struct order *order, uint64_t first, uint32_t count, uint64_t *samples) {
    const uint64_t left = first < order->samples ? order->samples - first : 0;
    const uint32_t inside = (uint32_t)min_u64(count, left);
    for (uint32_t at = inside; at < count; at++)
        samples[at] = UINT64_MAX;
    for (uint32_t at = 0; at < inside; at++)
        samples[at] = first + at;
    if (order->version != ORDER_SEQUENTIAL)
        shuffle(order, inside, samples);
}

void order_gather(const struct order *order, uint32_t count, uint64_t *positions) {
    for (uint32_t at = 0; at < count;) {
        uint32_t inside = at;
        while (inside < count && positions[inside] < order->samples)
            inside++;
        if (order->version != ORDER_SEQUENTIAL)
            shuffle(order, inside - at, positions + at);
        for (at = inside; at < count && positions[at] >= order->samples; at++)
            positions[at] = UINT64_MAX;
    }
}

uint64_t order_sample(const struct order *order, uint64_t position) {
    if (position >= order->samples)
        return UINT64_MAX;
    if (order->version == ORDER_SEQUENTIAL)
        return position;
    return walk(order, position);
}
