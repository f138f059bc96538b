#include "order/order_kernels.h"

#include "base/sizes.h"

enum {
    ROUNDS = COUNT_OF(((struct order *)0)->keys),
    LANES = 8, // of the plain kernel: enough for the multiplications to overlap
    WIDE_LANES = 64,
};

_Static_assert(ROUNDS % 2 == 0, "rounds go in pairs");
_Static_assert(WIDE_LANES <= ORDER_LANES_MOST, "callers have room for so many values");

#define MULTIPLIER_1 UINT64_C(0xbf58476d1ce4e5b9)
#define MULTIPLIER_2 UINT64_C(0x94d049bb133111eb)

// The top bits of a product depend on all bits of its factors, hence the shift at the end and not a mask.
static inline uint64_t scramble(uint64_t half, uint64_t key, uint32_t shift) {
    uint64_t word = (half + key) * MULTIPLIER_1;
    return ((word ^ (word >> 32)) * MULTIPLIER_2) >> shift;
}

// Halves are combined by addition and not by exclusive or, which would make nearly every round, and so the
// whole, an even permutation: in tiny epochs half of all orders would be rare or never come.
// Inlined with a constant number of lanes, so that the loops over lanes dissolve.
static inline __attribute__((always_inline)) void permute(const struct order *order, uint64_t *values,
                                                          const int lanes) {
    const uint32_t right_bits = order->right_bits;
    const uint32_t left_shift = 64 - order->left_bits, right_shift = 64 - right_bits;
    const uint64_t left_mask = UINT64_MAX >> left_shift, right_mask = UINT64_MAX >> right_shift;
    uint64_t left[LANES], right[LANES];
    for (int lane = 0; lane < lanes; lane++) {
        left[lane] = values[lane] >> right_bits;
        right[lane] = values[lane] & right_mask;
    }
    for (int round = 0; round < ROUNDS; round += 2) {
        const uint64_t left_key = order->keys[round], right_key = order->keys[round + 1];
#pragma GCC unroll 8
        for (int lane = 0; lane < lanes; lane++)
            left[lane] = (left[lane] + scramble(right[lane], left_key, left_shift)) & left_mask;
#pragma GCC unroll 8
        for (int lane = 0; lane < lanes; lane++)
            right[lane] = (right[lane] + scramble(left[lane], right_key, right_shift)) & right_mask;
    }
    for (int lane = 0; lane < lanes; lane++)
        values[lane] = left[lane] << right_bits | right[lane];
}

uint64_t order_permute(const struct order *order, uint64_t value) {
    permute(order, &value, 1);
    return value;
}

static void permute_plain(const struct order *order, uint64_t *values) {
    permute(order, values, LANES);
}

// ---- AVX-512, the only one that multiplies words of 64 bits ------------------------------------------------

#ifdef __x86_64__
typedef uint64_t vector __attribute__((vector_size(64), may_alias, aligned(8)));

enum {
    VECTORS = WIDE_LANES * sizeof(uint64_t) / sizeof(vector)
};

#define ROUND(into, from, key, shift, mask)                                                                  \
    _Pragma("GCC unroll 8") for (int i = 0; i < VECTORS; i++) {                                              \
        vector word = ((from)[i] + (key)) * MULTIPLIER_1;                                                    \
        word = (word ^ (word >> 32)) * MULTIPLIER_2;                                                         \
        (into)[i] = ((into)[i] + (word >> (shift))) & (mask);                                                \
    }

// As permute(). Of 32 registers, 16 hold the halves.
static __attribute__((target("avx512f,avx512dq"))) void permute_avx512(const struct order *order,
                                                                       uint64_t *values) {
    const uint64_t right_bits = order->right_bits, left_shift = 64 - order->left_bits,
                   right_shift = 64 - right_bits;
    const uint64_t left_mask = UINT64_MAX >> left_shift, right_mask = UINT64_MAX >> right_shift;
    vector left[VECTORS], right[VECTORS], *all = (vector *)values;
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++) {
        left[i] = all[i] >> right_bits;
        right[i] = all[i] & right_mask;
    }
    for (int round = 0; round < ROUNDS; round += 2) {
        const uint64_t left_key = order->keys[round], right_key = order->keys[round + 1];
        ROUND(left, right, left_key, left_shift, left_mask)
        ROUND(right, left, right_key, right_shift, right_mask)
    }
#pragma GCC unroll 8
    for (int i = 0; i < VECTORS; i++)
        all[i] = left[i] << right_bits | right[i];
}
#endif

static const struct order_kernel plain = {"plain", LANES, permute_plain};

const struct order_kernel *order_kernel_plain(void) {
    return &plain;
}

const struct order_kernel *order_kernel(uint32_t index) {
    const struct order_kernel *kernels[2];
    uint32_t count = 0;
#ifdef __x86_64__
    static const struct order_kernel avx512 = {"avx512", WIDE_LANES, permute_avx512};
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        kernels[count++] = &avx512;
#endif
    kernels[count++] = &plain;
    return index < count ? kernels[index] : NULL;
}
