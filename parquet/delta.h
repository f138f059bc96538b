// DELTA_BINARY_PACKED: integers as differences, packed into as many bits as a group of them needs.
#ifndef FEEDD_PARQUET_DELTA_H
#define FEEDD_PARQUET_DELTA_H

#include <stdbool.h>
#include <stdint.h>

struct delta {
    const uint8_t *at, *end;
    uint64_t count; // that are left
    uint64_t value; // the next one
    uint64_t least; // of the differences in the present block
    uint64_t group; // differences in a group
    uint32_t groups;
    const uint8_t *widths; // of the present block's groups, in bits
    uint32_t next;         // group
    uint32_t width;        // of the present group
    uint64_t left;         // differences in it
    const uint8_t *bits;
    uint64_t bit;
};

// False: this cannot be the beginning.
bool delta_open(struct delta *delta, const uint8_t *bytes, uint64_t count);

// How many values could be read, as two's complements: less than `count` if there are no more, or what there is makes
// no sense.
uint64_t delta_read(struct delta *delta, uint64_t *values, uint64_t count);

// Reads all that is left. Where the next thing begins; or NULL.
const uint8_t *delta_finish(struct delta *delta);

#endif
