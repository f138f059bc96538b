// Draws with replacement, by weight: which sample stands at which position of which epoch. A pure function of seed,
// epoch, position and weights, the same on every machine and in every version: tests/unit/draw_vectors.h pins it, and
// a change is a new SELECTION_WEIGHTED_* kind (order/selection.h).
//
// Version 1. The random number u of a position is the first 64 bits, the first word lowest, of random_at
// (order/philox.h) with the key of RANDOM_DRAW_1 and the seed. With S the sum of all shares (order/shares.h), the
// draw is the first sample whose share, added to those of all samples before it, exceeds floor(u * S / 2^64). So a
// sample comes with a probability within 2^-64 of share / S, and one with a weight of 0 never.
//
// This is a search in the sums of shares, not an alias table: it takes 12 bytes a sample and not 16, it can be said
// in one sentence, and draws change little when weights do. A table of where each of at most n equal parts of all u
// begins leaves two samples to search on average, so a draw costs two accesses to memory, as with an alias table.
#ifndef FEEDD_ORDER_DRAW_H
#define FEEDD_ORDER_DRAW_H

#include <stddef.h>
#include <stdint.h>

// Ready for use. Plain data; copy it freely.
struct draw_table {
    uint64_t count;       // samples
    const uint64_t *sums; // of shares
    const uint32_t *starts;
    uint32_t start_bits; // there are 2^start_bits parts
};

// Of the memory of a table: `count` sums, and after them where the parts start. At most 12 a sample, and 12 more.
size_t draw_bytes(uint64_t count);

// Completes such memory, whose sums are there: they do not fall, and the last one is above 0. 1 <= count <= 2^32.
void draw_prepare(uint64_t *memory, uint64_t count);

// `memory` has been prepared, and must outlive the table.
void draw_init(struct draw_table *table, const uint64_t *memory, uint64_t count);

// The sample that the random number `u` stands for.
uint64_t draw_by(const struct draw_table *table, uint64_t u);

// Replaces positions of an epoch by the samples drawn there; UINT64_MAX, which is not a position, stays.
void draw_samples(const struct draw_table *table, uint64_t seed, uint64_t epoch, uint32_t count,
                  uint64_t *positions);

#endif
