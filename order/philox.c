#include "order/philox.h"

#include "order/splitmix.h"

#define ROUNDS 10

struct philox_block philox(struct philox_key key, struct philox_block counter) {
    uint32_t *at = counter.word;
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t even = UINT64_C(0xd2511f53) * at[0], odd = UINT64_C(0xcd9e8d57) * at[2];
        counter = (struct philox_block){{
            (uint32_t)(odd >> 32) ^ at[1] ^ key.word[0],
            (uint32_t)odd,
            (uint32_t)(even >> 32) ^ at[3] ^ key.word[1],
            (uint32_t)even,
        }};
        key.word[0] += 0x9e3779b9u;
        key.word[1] += 0xbb67ae85u;
    }
    return counter;
}

struct philox_key random_key(enum random_use use, uint64_t seed) {
    const uint64_t key = splitmix64(splitmix64(use) ^ seed);
    return (struct philox_key){{(uint32_t)key, (uint32_t)(key >> 32)}};
}

struct philox_block random_at(struct philox_key key, uint64_t epoch, uint64_t position) {
    return philox(key, (struct philox_block){{(uint32_t)position, (uint32_t)(position >> 32), (uint32_t)epoch,
                                              (uint32_t)(epoch >> 32)}});
}
