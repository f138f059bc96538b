// The order of samples and its division into batches, written from the description in ../unit/order_reference.py and
// not from the code under test; storm.py compares it with that reference before it begins.
#ifndef FEEDD_TESTS_STORM_STORM_ORDER_H
#define FEEDD_TESTS_STORM_STORM_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct storm_order {
    uint64_t samples, batch_size, world_size, rank;
    uint64_t seed;
    bool shuffle, drop_last;
    uint64_t keys_epoch; // of the keys below
    bool has_keys;
    uint64_t keys[12];
    uint64_t left_bits, right_bits;
};

// The next global batch begins after `consumed` samples of all ranks.
struct storm_position {
    uint64_t epoch, consumed;
};

// The part of a global batch that belongs to the rank.
struct storm_part {
    uint64_t first, count;
    bool last;
    struct storm_position next;
};

static inline uint64_t storm_splitmix(uint64_t word) {
    word += UINT64_C(0x9e3779b97f4a7c15);
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

static inline void storm_order_enter(struct storm_order *order, uint64_t epoch) {
    if (order->has_keys && order->keys_epoch == epoch)
        return;
    uint64_t bits = 8;
    while ((UINT64_C(1) << bits) < order->samples)
        bits++;
    order->left_bits = bits / 2;
    order->right_bits = bits - bits / 2;
    for (uint64_t round = 0; round < 12; round++) {
        uint64_t word = storm_splitmix(storm_splitmix(round) ^ order->seed) ^ epoch;
        order->keys[round] = storm_splitmix(storm_splitmix(word) ^ order->samples);
    }
    order->keys_epoch = epoch;
    order->has_keys = true;
}

static inline uint64_t storm_scramble(uint64_t half, uint64_t key, uint64_t bits) {
    uint64_t word = (half + key) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 32) * UINT64_C(0x94d049bb133111eb);
    return word >> (64 - bits);
}

static inline uint64_t storm_order_sample(struct storm_order *order, uint64_t epoch, uint64_t position) {
    if (!order->shuffle)
        return position;
    storm_order_enter(order, epoch);
    uint64_t left_most = (UINT64_C(1) << order->left_bits) - 1;
    uint64_t right_most = (UINT64_C(1) << order->right_bits) - 1;
    do {
        uint64_t left = position >> order->right_bits, right = position & right_most;
        for (int round = 0; round < 12; round += 2) {
            left = (left + storm_scramble(right, order->keys[round], order->left_bits)) & left_most;
            right = (right + storm_scramble(left, order->keys[round + 1], order->right_bits)) & right_most;
        }
        position = left << order->right_bits | right;
    } while (position >= order->samples);
    return position;
}

// A position at or near the end of an epoch is the beginning of the next one, if no batch is left.
static inline struct storm_position storm_normal(const struct storm_order *order, struct storm_position at) {
    uint64_t rest = order->samples - at.consumed;
    if (at.consumed >= order->samples || (order->drop_last && rest < order->batch_size * order->world_size))
        return (struct storm_position){.epoch = at.epoch + 1};
    return at;
}

// `at` must be normal.
static inline struct storm_part storm_part(const struct storm_order *order, struct storm_position at) {
    uint64_t rest = order->samples - at.consumed, whole = order->batch_size * order->world_size;
    uint64_t rank = order->rank, world = order->world_size;
    struct storm_part part = {.first = at.consumed + rank * order->batch_size, .count = order->batch_size};
    if (rest < whole) {
        part.count = rest / world + (rank < rest % world);
        part.first = at.consumed + rank * (rest / world) + (rank < rest % world ? rank : rest % world);
        whole = rest;
    }
    struct storm_position next = {.epoch = at.epoch, .consumed = at.consumed + whole};
    part.next = storm_normal(order, next);
    part.last = part.next.epoch != at.epoch;
    return part;
}

#endif
