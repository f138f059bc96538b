#include "daemon/image/random.h"

#include "order/splitmix.h"

void image_random_begin(struct image_random *random, const struct image_place *place, uint32_t step) {
    const struct philox_key key = random_key(RANDOM_IMAGE_1, place->seed);
    *random = (struct image_random){
        .key = (key.word[0] | (uint64_t)key.word[1] << 32) ^ (uint64_t)step << 32,
        .epoch = place->epoch,
        .position = place->position,
    };
}

uint64_t image_random_bits(struct image_random *random) {
    const uint32_t number = random->taken++;
    if (number % 2 == 0) {
        const uint64_t key = splitmix64(random->key ^ number / 2);
        random->block = random_at((struct philox_key){{(uint32_t)key, (uint32_t)(key >> 32)}}, random->epoch,
                                  random->position);
    }
    const uint32_t *word = &random->block.word[number % 2 * 2];
    return word[0] | (uint64_t)word[1] << 32;
}

double image_random_uniform(struct image_random *random) {
    return (double)(image_random_bits(random) >> 11) * 0x1p-53;
}

uint32_t image_random_below(struct image_random *random, uint32_t count) {
    const uint64_t least = -(uint64_t)count % count; // 2^64 mod count
    unsigned __int128 product;
    do
        product = (unsigned __int128)image_random_bits(random) * count;
    while ((uint64_t)product < least);
    return (uint32_t)(product >> 64);
}
