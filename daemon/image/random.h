// The random numbers of an image's steps: counted, so that a step of a sample always gets the same ones, whichever
// loader computes it, and however often. Version 1; other numbers would be another RANDOM_IMAGE_* (order/philox.h).
//
// The key of block b (from 0) of step number s, as 64 bits, low half first, is
//   splitmix64(splitmix64(splitmix64(RANDOM_IMAGE_1) ^ seed) ^ (s * 2^32 + b))       (order/splitmix.h)
// and its counter is the sample's position in the epoch, then the epoch, as everywhere (random_at). Each block has two
// numbers of 64 bits: its words 0 and 1, then 2 and 3, low halves first. A step takes them in order.
#ifndef FEEDD_DAEMON_IMAGE_RANDOM_H
#define FEEDD_DAEMON_IMAGE_RANDOM_H

#include "order/philox.h"

// Which sample it is. A sample that replaces another one has the place of that one.
struct image_place {
    uint64_t seed, epoch, position;
};

// The numbers of one step of one sample. One thread at a time.
struct image_random {
    uint64_t key;
    uint64_t epoch, position;
    struct philox_block block;
    uint32_t taken; // numbers so far
};

void image_random_begin(struct image_random *random, const struct image_place *place, uint32_t step);

// The next number: 64 random bits.
uint64_t image_random_bits(struct image_random *random);

// In [0, 1): the upper 53 bits of the next number, times 2^-53.
double image_random_uniform(struct image_random *random);

// Below `count`, which is above 0, each with the same probability: with x the next number, floor(x * count / 2^64),
// unless x * count mod 2^64 < 2^64 mod count, which calls for another number.
uint32_t image_random_below(struct image_random *random, uint32_t count);

#endif
