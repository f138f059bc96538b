// Fills memory with a value of up to 8 bytes.
#ifndef FEEDD_BASE_REPEAT_H
#define FEEDD_BASE_REPEAT_H

#include <stdint.h>
#include <string.h>

// `pattern` is the value, repeated until it has 8 bytes.
static inline void repeat(void *to, uint64_t pattern, uint64_t bytes) {
    uint8_t *at = to;
    for (; bytes >= sizeof pattern; bytes -= sizeof pattern, at += sizeof pattern)
        memcpy(at, &pattern, sizeof pattern);
    memcpy(at, &pattern, bytes);
}

// The pattern of a value of 1, 2, 4 or 8 bytes, of which the others are 0.
static inline uint64_t repeat_pattern(uint64_t value, uint64_t value_bytes) {
    for (uint64_t bytes = value_bytes; bytes < sizeof value; bytes *= 2)
        value |= value << (8 * bytes);
    return value;
}

#endif
