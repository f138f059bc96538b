#include "daemon/image/resize_avx2.h"

#ifdef RESIZE_AVX2

#include <immintrin.h>

// A weight has 24 bits with its sign, so it is 256 high + low with a high part of 16 bits and a low one of 0..255.
// vpmaddwd adds two products of a pixel and a part, so each pair of weights takes two of them. Sums are modulo 2^32,
// and exact in the end.
#define TARGET __attribute__((target("avx2")))
#define INLINE TARGET static inline __attribute__((always_inline))
#define WORDS  4u // of a quad: the high parts of its two pairs, then the low ones
#define LANES  8u // words of a vector

static uint32_t pair_of(int32_t first, int32_t second) {
    return (uint32_t)(first & 0xffff) | (uint32_t)second << 16;
}

// _QUAD: of each result, for each quad, the pairs (0, 1) and (2, 3). _ONE: the pairs (0, 2) and (1, 3), those of LANES
// results side by side.
static void pack(struct resize_axis *axis) {
    uint32_t quads = axis->taps / RESIZE_QUAD;
    bool side_by_side = axis->key.layout == RESIZE_LAYOUT_ONE;
    for (uint32_t i = 0; i < (axis->key.part_count + LANES - 1) / LANES * LANES; i++)
        for (uint32_t quad = 0; quad < quads; quad++) {
            const int32_t *w = axis->weights + (size_t)i * axis->taps + (size_t)quad * RESIZE_QUAD;
            uint32_t second = side_by_side ? 2 : 1, third = side_by_side ? 1 : 2;
            size_t tile = ((size_t)i / LANES * quads + quad) * WORDS * LANES + i % LANES;
            size_t place = ((size_t)i * quads + quad) * WORDS;
            uint32_t *words = axis->packed + (side_by_side ? tile : place);
            size_t stride = side_by_side ? LANES : 1;
            words[0] = pair_of(w[0] >> 8, w[second] >> 8);
            words[stride] = pair_of(w[third] >> 8, w[3] >> 8);
            words[2 * stride] = pair_of(w[0] & 255, w[second] & 255);
            words[3 * stride] = pair_of(w[third] & 255, w[3] & 255);
        }
}

struct sums {
    __m256i high, low;
};

INLINE struct sums zero_sums(void) {
    struct sums sums = {_mm256_setzero_si256(), _mm256_set1_epi32(1 << (RESIZE_PRECISION - 1))};
    return sums;
}

INLINE void add(struct sums *sums, __m256i pixels, __m256i high, __m256i low) {
    sums->high = _mm256_add_epi32(sums->high, _mm256_madd_epi16(pixels, high));
    sums->low = _mm256_add_epi32(sums->low, _mm256_madd_epi16(pixels, low));
}

INLINE __m256i broadcast(uint32_t word) {
    return _mm256_set1_epi32((int)word);
}

// Pixels before they are clipped, in 32 bits each.
INLINE __m256i finish(const struct sums *sums) {
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(sums->high, 8), sums->low), RESIZE_PRECISION);
}

// Within each 16 bytes: four words of each of the four, in order, clipped to bytes.
INLINE __m256i clip(__m256i a, __m256i b, __m256i c, __m256i d) {
    return _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}

INLINE __m256i load_two(const uint8_t *low, const uint8_t *high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)low)),
                                   _mm_loadu_si128((const void *)high), 1);
}

// Each 16 bytes of a vector hold four pixels of one row, or the sums of one result of it.
INLINE void across_quads(const struct resize_axis *axis, const uint8_t *const *from, uint8_t *const *to,
                         uint32_t quads) {
    const __m256i first_pair =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m256i second_pair = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    const __m256i without_fourth =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const uint32_t *words = axis->packed;
    for (uint32_t i = 0; i < axis->key.part_count; i += 4) {
        __m256i results[2][4];
#pragma GCC unroll 4
        for (uint32_t k = 0; k < 4; k++) {
            size_t at = 3 * (size_t)axis->begins[i + k];
            struct sums sums[2] = {zero_sums(), zero_sums()};
            for (uint32_t quad = 0; quad < quads; quad++, words += WORDS, at += RESIZE_QUAD * 3) {
                __m256i high01 = broadcast(words[0]), high23 = broadcast(words[1]);
                __m256i low01 = broadcast(words[2]), low23 = broadcast(words[3]);
#pragma GCC unroll 2
                for (uint32_t half = 0; half < 2; half++) {
                    __m256i pixels = load_two(from[2 * half] + at, from[2 * half + 1] + at);
                    add(&sums[half], _mm256_shuffle_epi8(pixels, first_pair), high01, low01);
                    add(&sums[half], _mm256_shuffle_epi8(pixels, second_pair), high23, low23);
                }
            }
            results[0][k] = finish(&sums[0]);
            results[1][k] = finish(&sums[1]);
        }
#pragma GCC unroll 2
        for (uint32_t half = 0; half < 2; half++) {
            const __m256i *r = results[half];
            __m256i pixels = _mm256_shuffle_epi8(clip(r[0], r[1], r[2], r[3]), without_fourth);
            _mm_storeu_si128((void *)(to[2 * half] + 3 * (size_t)i), _mm256_castsi256_si128(pixels));
            _mm_storeu_si128((void *)(to[2 * half + 1] + 3 * (size_t)i), _mm256_extracti128_si256(pixels, 1));
        }
    }
}

TARGET static void across_three(const struct resize_axis *axis, const uint8_t *const *from,
                                uint8_t *const *to) {
    uint32_t quads = axis->taps / RESIZE_QUAD;
    if (quads == 1)
        across_quads(axis, from, to, 1);
    else if (quads == 2)
        across_quads(axis, from, to, 2);
    else
        across_quads(axis, from, to, quads);
}

// LANES results side by side.
TARGET static void across_one(const struct resize_axis *axis, const uint8_t *from, uint8_t *to) {
    const __m256i even = _mm256_set1_epi32(0x00ff00ff);
    const uint32_t *words = axis->packed;
    uint32_t quads = axis->taps / RESIZE_QUAD;
    for (uint32_t i = 0; i < axis->key.part_count; i += LANES) {
        __m256i begins = _mm256_loadu_si256((const void *)(axis->begins + i));
        struct sums sums = zero_sums();
        for (uint32_t quad = 0; quad < quads; quad++, words += WORDS * LANES) {
            const __m256i *parts = (const void *)words;
            __m256i pixels =
                _mm256_i32gather_epi32((const void *)(from + (size_t)quad * RESIZE_QUAD), begins, 1);
            add(&sums, _mm256_and_si256(pixels, even), parts[0], parts[2]);
            add(&sums, _mm256_and_si256(_mm256_srli_epi32(pixels, 8), even), parts[1], parts[3]);
        }
        __m256i result = finish(&sums);
        __m256i bytes = clip(result, result, result, result);
        __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
        _mm_storel_epi64((void *)(to + i), both);
    }
}

static void across(const struct resize_axis *axis, uint32_t channels, const uint8_t *const *from,
                   uint8_t *const *to) {
    if (channels == 3)
        across_three(axis, from, to);
    else
        for (uint32_t row = 0; row < RESIZE_ROWS; row++)
            across_one(axis, from[row], to[row]);
}

// As many columns as a vector has bytes.
INLINE void down_columns(const uint32_t *words, uint32_t used, const uint8_t *from, size_t stride,
                         uint8_t *to) {
    const __m256i zero = _mm256_setzero_si256();
    struct sums sums[4] = {zero_sums(), zero_sums(), zero_sums(), zero_sums()};
    for (uint32_t tap = 0; tap < used; tap += 2) {
        // The weight behind the last row is 0.
        const uint8_t *first = from + tap * stride, *second = tap + 1 < used ? first + stride : first;
        const uint32_t *pair = words + tap / RESIZE_QUAD * WORDS + tap / 2 % 2;
        __m256i high = broadcast(pair[0]), low = broadcast(pair[2]);
        __m256i a = _mm256_loadu_si256((const void *)first), b = _mm256_loadu_si256((const void *)second);
        __m256i ab = _mm256_unpacklo_epi8(a, b), cd = _mm256_unpackhi_epi8(a, b);
        add(&sums[0], _mm256_unpacklo_epi8(ab, zero), high, low);
        add(&sums[1], _mm256_unpackhi_epi8(ab, zero), high, low);
        add(&sums[2], _mm256_unpacklo_epi8(cd, zero), high, low);
        add(&sums[3], _mm256_unpackhi_epi8(cd, zero), high, low);
    }
    _mm256_storeu_si256((void *)to,
                        clip(finish(&sums[0]), finish(&sums[1]), finish(&sums[2]), finish(&sums[3])));
}

// The last columns of a row, of which there are fewer than a vector has bytes.
static void down_rest(const int32_t *weights, uint32_t used, const uint8_t *from, size_t stride, size_t bytes,
                      uint8_t *to) {
    for (size_t i = 0; i < bytes; i++) {
        uint32_t sum = 0;
        for (uint32_t tap = 0; tap < used; tap++)
            sum += (uint32_t)weights[tap] * from[i + tap * stride];
        to[i] = resize_pixel(sum);
    }
}

TARGET static void down(const struct resize_axis *axis, uint32_t result, const uint8_t *from, size_t stride,
                        size_t bytes, uint8_t *to) {
    const uint32_t *words = axis->packed + (size_t)result * (axis->taps / RESIZE_QUAD) * WORDS;
    uint32_t used = axis->used[result];
    size_t done = 0;
    for (; done + sizeof(__m256i) <= bytes; done += sizeof(__m256i))
        down_columns(words, used, from + done, stride, to + done);
    if (done == bytes)
        return;
    if (bytes >= sizeof(__m256i)) // some columns twice
        down_columns(words, used, from + bytes - sizeof(__m256i), stride, to + bytes - sizeof(__m256i));
    else
        down_rest(axis->weights + (size_t)result * axis->taps, used, from, stride, bytes, to);
}

const struct resize_kernels resize_avx2 = {"avx2", pack, across, down};

#endif
