// Latencies in fixed memory: how often something took how long, and all of it together. Two buckets for each power of
// two, so that what a bucket ends with is at most half as much again as what is in it.
#ifndef FEEDD_SHM_LATENCY_H
#define FEEDD_SHM_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#define LATENCY_FIRST_BIT 8u  // the first bucket has all below 384 ns
#define LATENCY_BUCKETS   56u // the last one has all from 52 s on

// All words have one writer, which writes them relaxed.
struct latency {
    _Atomic uint64_t sum_ns;
    _Atomic uint64_t buckets[LATENCY_BUCKETS];
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

static inline void latency_raise(_Atomic uint64_t *word, uint64_t amount) {
    // There is one writer: see stats_add.
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + amount,
                          memory_order_relaxed);
}

static inline void latency_add(struct latency *latency, uint64_t ns, uint64_t times) {
    latency_raise(&latency->sum_ns, ns * times);
    latency_raise(&latency->buckets[latency_bucket(ns)], times);
}

// For who has all of them to itself.
static inline void latencies_clear(struct latency *latencies, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        atomic_store_explicit(&latencies[i].sum_ns, 0, memory_order_relaxed);
        for (uint32_t k = 0; k < LATENCY_BUCKETS; k++)
            atomic_store_explicit(&latencies[i].buckets[k], 0, memory_order_relaxed);
    }
}

static inline void latency_move_word(_Atomic uint64_t *to, _Atomic uint64_t *from) {
    latency_raise(to, atomic_load_explicit(from, memory_order_relaxed));
    atomic_store_explicit(from, 0, memory_order_relaxed);
}

// Moves what is in `from`, whose writer is gone, to `to`.
static inline void latencies_move(struct latency *to, struct latency *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        latency_move_word(&to[i].sum_ns, &from[i].sum_ns);
        for (uint32_t k = 0; k < LATENCY_BUCKETS; k++)
            latency_move_word(&to[i].buckets[k], &from[i].buckets[k]);
    }
}

#endif
