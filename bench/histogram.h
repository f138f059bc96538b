// Durations in nanoseconds, counted in buckets about 3 % wide, in constant memory.
#ifndef FEEDD_BENCH_HISTOGRAM_H
#define FEEDD_BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEPS   32u // buckets to each power of two
#define HISTOGRAM_BUCKETS (64u * HISTOGRAM_STEPS)

struct histogram {
    uint64_t count, largest;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

static inline uint32_t histogram_bucket(uint64_t ns) {
    if (ns < HISTOGRAM_STEPS)
        return (uint32_t)ns;
    uint32_t shift = 63u - (uint32_t)__builtin_clzll(ns) - 5u;
    return (shift + 1) * HISTOGRAM_STEPS + (uint32_t)(ns >> shift) - HISTOGRAM_STEPS;
}

// The smallest duration that falls into a bucket.
static inline uint64_t histogram_floor(uint32_t bucket) {
    if (bucket < HISTOGRAM_STEPS)
        return bucket;
    return (uint64_t)(bucket % HISTOGRAM_STEPS + HISTOGRAM_STEPS) << (bucket / HISTOGRAM_STEPS - 1);
}

static inline void histogram_add(struct histogram *histogram, uint64_t ns) {
    histogram->count++;
    histogram->buckets[histogram_bucket(ns)]++;
    if (ns > histogram->largest)
        histogram->largest = ns;
}

// The duration that `part` (0..1) of all stay at or below, rounded down to its bucket; 0 when there are none.
static inline uint64_t histogram_quantile(const struct histogram *histogram, double part) {
    uint64_t wanted = (uint64_t)(part * (double)histogram->count), seen = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen > wanted)
            return histogram_floor(i);
    }
    return histogram->largest;
}

#endif
