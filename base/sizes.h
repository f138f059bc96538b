// Arithmetic of sizes, and the few sizes that everybody shares.
#ifndef FEEDD_BASE_SIZES_H
#define FEEDD_BASE_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CACHE_LINE      64
#define MIB             (UINT64_C(1) << 20)
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
// The structure of which `pointer` points to the member `member`.
#define CONTAINER_OF(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

// The next multiple of `alignment`. The sum must not overflow.
static inline uint64_t align_up(uint64_t value, uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

// The quotient, rounded up.
static inline uint64_t divide_up(uint64_t value, uint64_t divisor) {
    return value / divisor + (value % divisor != 0);
}

// Whole MiB, rounded up, for messages.
static inline uint64_t mib_up(uint64_t bytes) {
    return divide_up(bytes, MIB);
}

// The least power of two that is not smaller. `value` is at most 2^63.
static inline uint64_t power_of_two_up(uint64_t value) {
    uint64_t power = 1;
    while (power < value)
        power *= 2;
    return power;
}

static inline bool is_power_of_two(uint64_t value) {
    return value && !(value & (value - 1));
}

static inline uint64_t min_u64(uint64_t left, uint64_t right) {
    return left < right ? left : right;
}
static inline uint64_t max_u64(uint64_t left, uint64_t right) {
    return left > right ? left : right;
}

#endif
