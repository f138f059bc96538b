// Random numbers that are counted, not drawn: a pure function of what they are for, so that they are the same on every
// machine, in whatever order and however often they are asked for.
#ifndef FEEDD_ORDER_PHILOX_H
#define FEEDD_ORDER_PHILOX_H

#include <stdint.h>

// 128 bits: a counter, or the random number that belongs to it.
struct philox_block {
    uint32_t word[4];
};

struct philox_key {
    uint32_t word[2];
};

// Philox4x32-10 as Salmon, Moraes, Dror and Shaw describe it ("Parallel random numbers: as easy as 1, 2, 3", SC 2011):
// for each key a bijection of blocks. tests/unit/test_philox.c has their test vectors.
struct philox_block philox(struct philox_key key, struct philox_block counter);

// Every use of random numbers has a number of its own, so that no two of them see the same ones.
enum random_use {
    RANDOM_DRAW_1 = 1,    // order/draw.h
    RANDOM_REPLACE_1 = 2, // order/replace.h
    RANDOM_IMAGE_1 = 3,   // daemon/image/random.h
    RANDOM_BATCH_1 = 4,   // client/python/feedd/mixing.py
};

// The key of a use and a seed: the low and the high half of mix(mix(use) ^ seed) (order/mix.h).
struct philox_key random_key(enum random_use use, uint64_t seed);

// The random number at a position of an epoch. The counter is the position, then the epoch, low halves first.
struct philox_block random_at(struct philox_key key, uint64_t epoch, uint64_t position);

#endif
