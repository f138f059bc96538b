// Draws by weight, written from the description in order/draw.h and order/philox.h and not from the code under test.
// The sums of shares come from ../unit/draw_reference.py.
#ifndef FEEDD_TESTS_STORM_STORM_DRAW_H
#define FEEDD_TESTS_STORM_STORM_DRAW_H

#include "tests/storm/storm_order.h"

struct storm_words {
    uint64_t low, high;
};

// Philox4x32-10.
static inline struct storm_words storm_philox_words(uint64_t key, uint64_t low, uint64_t high) {
    for (int round = 0; round < 10; round++) {
        const uint64_t left = (low & UINT32_MAX) * UINT64_C(0xd2511f53);
        const uint64_t right = (high & UINT32_MAX) * UINT64_C(0xcd9e8d57);
        const uint64_t new_low = (right >> 32 ^ low >> 32 ^ (key & UINT32_MAX)) | right << 32;
        high = (left >> 32 ^ high >> 32 ^ key >> 32) | left << 32;
        low = new_low;
        key = ((key + UINT64_C(0x9e3779b9)) & UINT32_MAX) | ((key >> 32) + UINT64_C(0xbb67ae85)) << 32;
    }
    return (struct storm_words){low, high};
}

static inline uint64_t storm_philox(uint64_t key, uint64_t low, uint64_t high) {
    return storm_philox_words(key, low, high).low;
}

// The sample that stands at a position.
static inline uint64_t storm_draw(const uint64_t *sums, uint64_t count, uint64_t seed, uint64_t epoch,
                                  uint64_t position) {
    const uint64_t u = storm_philox(storm_splitmix(storm_splitmix(1) ^ seed), position, epoch);
    const uint64_t share = (uint64_t)((unsigned __int128)u * sums[count - 1] >> 64);
    uint64_t low = 0, high = count - 1;
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if (sums[middle] > share)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

#endif
