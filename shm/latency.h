// Latencies in fixed memory: how often something took how long. Two buckets for each power of two, so that what a
// bucket ends with is at most half as much again as what is in it.
#ifndef FEEDD_SHM_LATENCY_H
#define FEEDD_SHM_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#define LATENCY_FIRST_BIT 8u  // the first bucket has all below 384 ns
#define LATENCY_BUCKETS   56u // the last one has all from 52 s on

struct latency {
    _Atomic uint64_t buckets[LATENCY_BUCKETS]; // each has one writer, which writes it relaxed
};

static inline uint32_t latency_bucket(uint64_t ns) {
    if (ns >> LATENCY_FIRST_BIT == 0)
        return 0;
    const uint32_t power = 63u - (uint32_t)__builtin_clzll(ns);
    const uint32_t bucket = 2 * (power - LATENCY_FIRST_BIT) + (uint32_t)(ns >> (power - 1) & 1);
    return bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
}

// What everything in the bucket is shorter than; of the last one, what it begins with.
static inline uint64_t latency_bucket_end(uint32_t bucket) {
    const uint32_t next = bucket + 1 < LATENCY_BUCKETS ? bucket + 1 : LATENCY_BUCKETS - 1;
    return (2ull + next % 2) << (LATENCY_FIRST_BIT + next / 2 - 1);
}

static inline void latency_add(struct latency *latency, uint64_t ns, uint64_t times) {
    _Atomic uint64_t *bucket = &latency->buckets[latency_bucket(ns)];
    // There is one writer: see stats_add.
    atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + times,
                          memory_order_relaxed);
}

// For who has all of them to itself.
static inline void latencies_clear(struct latency *latencies, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < LATENCY_BUCKETS; k++)
            atomic_store_explicit(&latencies[i].buckets[k], 0, memory_order_relaxed);
}

// Moves what is in `from`, whose writer is gone, to `to`.
static inline void latencies_move(struct latency *to, struct latency *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < LATENCY_BUCKETS; k++) {
            uint64_t sum = atomic_load_explicit(&to[i].buckets[k], memory_order_relaxed) +
                           atomic_load_explicit(&from[i].buckets[k], memory_order_relaxed);
            atomic_store_explicit(&to[i].buckets[k], sum, memory_order_relaxed);
            atomic_store_explicit(&from[i].buckets[k], 0, memory_order_relaxed);
        }
}

#endif
