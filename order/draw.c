#include "order/draw.h"

#include "base/sizes.h"
#include "order/philox.h"

#define AT_ONCE 64u // positions whose accesses to memory overlap

// The largest power of two that is not above the samples, but at least two parts, so that no shift is by 64.
static uint32_t start_bits(uint64_t count) {
    return count < 4 ? 1 : 63 - (uint32_t)__builtin_clzll(count);
}

size_t draw_bytes(uint64_t count) {
    return count * sizeof(uint64_t) + ((UINT64_C(1) << start_bits(count)) + 1) * sizeof(uint32_t);
}

static uint64_t share_of(uint64_t u, uint64_t sum) {
    return (uint64_t)((unsigned __int128)u * sum >> 64);
}

void draw_prepare(uint64_t *memory, uint64_t count) {
    uint32_t *starts = (uint32_t *)(memory + count);
    const uint32_t bits = start_bits(count);
    const uint64_t sum = memory[count - 1];
    uint64_t sample = 0;
    for (uint64_t part = 0; part < UINT64_C(1) << bits; part++) {
        const uint64_t share = share_of(part << (64 - bits), sum);
        while (memory[sample] <= share)
            sample++;
        starts[part] = (uint32_t)sample;
    }
    while (memory[sample] < sum)
        sample++;
    starts[UINT64_C(1) << bits] = (uint32_t)sample;
}

void draw_init(struct draw_table *table, const uint64_t *memory, uint64_t count) {
    *table = (struct draw_table){.count = count,
                                 .sums = memory,
                                 .starts = (const uint32_t *)(memory + count),
                                 .start_bits = start_bits(count)};
}

// The first sample from `low` on whose sum exceeds `share`; that of `high` does.
static inline uint64_t search(const uint64_t *sums, uint64_t low, uint64_t high, uint64_t share) {
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (sums[middle] > share)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint64_t draw_by(const struct draw_table *table, uint64_t u) {
    const uint64_t part = u >> (64 - table->start_bits);
    return search(table->sums, table->starts[part], table->starts[part + 1],
                  share_of(u, table->sums[table->count - 1]));
}

// In steps, each for all positions, so that the processor waits for the memory of many at the same time.
static void draw_some(const struct draw_table *table, struct philox_key key, uint64_t epoch, uint32_t count,
                      uint64_t *positions) {
    uint64_t random[AT_ONCE], low[AT_ONCE], high[AT_ONCE];
    const uint64_t sum = table->sums[table->count - 1];
    for (uint32_t i = 0; i < count; i++) {
        const struct philox_block block = random_at(key, epoch, positions[i]);
        random[i] = block.word[0] | (uint64_t)block.word[1] << 32;
        __builtin_prefetch(&table->starts[random[i] >> (64 - table->start_bits)]);
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t *start = &table->starts[random[i] >> (64 - table->start_bits)];
        low[i] = start[0];
        high[i] = start[1];
        __builtin_prefetch(&table->sums[low[i]]);
    }
    for (uint32_t i = 0; i < count; i++)
        if (positions[i] != UINT64_MAX)
            positions[i] = search(table->sums, low[i], high[i], share_of(random[i], sum));
}

void draw_samples(const struct draw_table *table, uint64_t seed, uint64_t epoch, uint32_t count,
                  uint64_t *positions) {
    const struct philox_key key = random_key(RANDOM_DRAW_1, seed);
    for (uint32_t at = 0; at < count; at += AT_ONCE)
        draw_some(table, key, epoch, (uint32_t)min_u64(AT_ONCE, count - at), positions + at);
}
