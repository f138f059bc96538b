// The data of GPU measurements: the 64-bit word at place j of the file, little-endian, is content_word(j). That is a
// bijection, so the first word of a sample tells a kernel where in the file the sample is, hence which sample it is,
// and what all its other words must be, for any sample size. For both C and CUDA.
#ifndef FEEDD_BENCH_GPU_CONTENT_H
#define FEEDD_BENCH_GPU_CONTENT_H

#include <stdint.h>

#ifdef __CUDACC__
#define CONTENT_FUNCTION static inline __host__ __device__
#else
#define CONTENT_FUNCTION static inline
#endif

#define CONTENT_FIRST  UINT64_C(0x9e3779b97f4a7c15)
#define CONTENT_STEP   UINT64_C(0xd1342543de82ef95)
#define CONTENT_FACTOR UINT64_C(0xbf58476d1ce4e5b9)

// Of CONTENT_STEP and CONTENT_FACTOR, modulo 2^64.
#define CONTENT_STEP_INVERSE   UINT64_C(0x572b5ee77a54e3bd)
#define CONTENT_FACTOR_INVERSE UINT64_C(0x96de1b173f119089)

CONTENT_FUNCTION uint64_t content_word(uint64_t place) {
    uint64_t word = CONTENT_FIRST + place * CONTENT_STEP;
    word = (word ^ (word >> 32)) * CONTENT_FACTOR;
    return word ^ (word >> 29);
}

// The place of a word; for a word that is not in the file, a place after its end.
CONTENT_FUNCTION uint64_t content_place(uint64_t word) {
    word = (word ^ (word >> 29) ^ (word >> 58)) * CONTENT_FACTOR_INVERSE;
    word ^= word >> 32;
    return (word - CONTENT_FIRST) * CONTENT_STEP_INVERSE;
}

// The number of the sample that begins with `word`; UINT64_MAX: none of the `samples` does.
CONTENT_FUNCTION uint64_t content_sample(uint64_t word, uint64_t words_per_sample, uint64_t samples) {
    uint64_t place = content_place(word), sample = place / words_per_sample;
    return place % words_per_sample == 0 && sample < samples ? sample : UINT64_MAX;
}

// What a word at its place contributes to a hash: a sample's hash is the sum of these, with its last word padded with
// zeros.
CONTENT_FUNCTION uint64_t content_hash_part(uint64_t word, uint64_t place) {
    word = (word ^ ((place + 1) * CONTENT_STEP)) * CONTENT_FACTOR;
    return (word ^ (word >> 31)) * CONTENT_FIRST;
}

#endif
