// Parquet's hybrid of run lengths and packed bits: levels, indices into a dictionary, booleans.
#ifndef FEEDD_PARQUET_RLE_H
#define FEEDD_PARQUET_RLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rle {
    const uint8_t *at, *end;
    uint32_t width; // of a value, in bits: at most 32
    uint64_t left;  // values of the present run
    bool packed;
    uint32_t value;      // of a run of one value
    const uint8_t *bits; // of a packed run, and the first bit that was not read
    uint64_t bit;
};

struct rle rle_open(const uint8_t *bytes, uint64_t count, uint32_t width);

// How many values could be read: less than `count` if there are no more, or what there is makes no sense.
uint64_t rle_read(struct rle *rle, uint32_t *values, uint64_t count);

// How many values of the present run are left, which all are *value; 0: it is of packed bits, or there is none.
uint64_t rle_run(struct rle *rle, uint32_t *value);
// Passes over some of them.
static inline void rle_skip(struct rle *rle, uint64_t count) {
    rle->left -= count;
}

// Reads `count` values and adds to *equal how many of them are `value`. False as above.
bool rle_count(struct rle *rle, uint64_t count, uint32_t value, uint64_t *equal);

#endif
