#include "order/replace.h"

#include "order/philox.h"
#include "order/splitmix.h"

uint64_t replace_number(uint64_t seed, uint64_t epoch, uint64_t position, uint32_t attempt,
                        uint64_t samples) {
    const struct philox_key key = random_key(RANDOM_REPLACE_1, splitmix64(seed) + attempt);
    const struct philox_block block = random_at(key, epoch, position);
    const uint64_t u = block.word[0] | (uint64_t)block.word[1] << 32;
    return (uint64_t)((unsigned __int128)u * samples >> 64);
}
