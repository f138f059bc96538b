#include "daemon/image/resize_avx512.h"

#ifdef RESIZE_AVX512

#include <immintrin.h>
#include <string.h>

// A weight has 24 bits with its sign, so it is d0 + 256 d1 + 65536 d2 with digits of -128..127. vpdpbusd adds four
// products of a pixel and a digit to a sum of 32 bits, so each quad of weights takes three of them, one per digit. Sums
// are modulo 2^32, and exact in the end.
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define INLINE TARGET static inline __attribute__((always_inline))
#define DIGITS 3u
#define LANES  16u // words of a vector

bool resize_avx512_runs(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

static void digits_of(const int32_t *quad, uint32_t *words, size_t stride) {
    uint8_t digits[DIGITS][RESIZE_QUAD];
    for (uint32_t tap = 0; tap < RESIZE_QUAD; tap++) {
        int32_t rest = quad[tap];
        for (uint32_t digit = 0; digit < DIGITS; digit++) {
            int32_t low = ((rest + 128) & 255) - 128;
            digits[digit][tap] = (uint8_t)low;
            rest = (rest - low) / 256;
        }
    }
    for (uint32_t digit = 0; digit < DIGITS; digit++)
        memcpy(words + digit * stride, digits[digit], sizeof *words);
}

// _QUAD: of each result, for each quad, a word of four digits for each of the three. _ONE: the same words of LANES
// results side by side.
static void pack(struct resize_axis *axis) {
    uint32_t quads = axis->taps / RESIZE_QUAD;
    bool side_by_side = axis->key.layout == RESIZE_LAYOUT_ONE;
    for (uint32_t i = 0; i < (axis->key.part_count + LANES - 1) / LANES * LANES; i++)
        for (uint32_t quad = 0; quad < quads; quad++) {
            const int32_t *weights = axis->weights + (size_t)i * axis->taps + (size_t)quad * RESIZE_QUAD;
            size_t tile = (size_t)i / LANES * quads + quad;
            size_t place = ((size_t)i * quads + quad) * DIGITS;
            if (side_by_side)
                digits_of(weights, axis->packed + tile * DIGITS * LANES + i % LANES, LANES);
            else
                digits_of(weights, axis->packed + place, 1);
        }
}

struct sums {
    __m512i digit[DIGITS];
};

INLINE struct sums zero_sums(void) {
    struct sums sums = {
        {_mm512_set1_epi32(1 << (RESIZE_PRECISION - 1)), _mm512_setzero_si512(), _mm512_setzero_si512()}};
    return sums;
}

INLINE void add_broadcast(struct sums *sums, __m512i pixels, const uint32_t *words) {
    for (uint32_t digit = 0; digit < DIGITS; digit++)
        sums->digit[digit] =
            _mm512_dpbusd_epi32(sums->digit[digit], pixels, _mm512_set1_epi32((int)words[digit]));
}

// Pixels before they are clipped, in 32 bits each.
INLINE __m512i finish(const struct sums *sums) {
    __m512i high = _mm512_add_epi32(_mm512_slli_epi32(sums->digit[2], 8), sums->digit[1]);
    return _mm512_srai_epi32(_mm512_add_epi32(_mm512_slli_epi32(high, 8), sums->digit[0]), RESIZE_PRECISION);
}

// Within each 16 bytes: four words of each of the four, in order, clipped to bytes.
INLINE __m512i clip(__m512i a, __m512i b, __m512i c, __m512i d) {
    return _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
}

INLINE __m512i load_rows(const uint8_t *const *from, size_t at) {
    __m512i pixels = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(from[0] + at)));
    pixels = _mm512_inserti32x4(pixels, _mm_loadu_si128((const void *)(from[1] + at)), 1);
    pixels = _mm512_inserti32x4(pixels, _mm_loadu_si128((const void *)(from[2] + at)), 2);
    return _mm512_inserti32x4(pixels, _mm_loadu_si128((const void *)(from[3] + at)), 3);
}

INLINE void store_rows(uint8_t *const *to, size_t at, __m512i pixels) {
    _mm_storeu_si128((void *)(to[0] + at), _mm512_castsi512_si128(pixels));
    _mm_storeu_si128((void *)(to[1] + at), _mm512_extracti32x4_epi32(pixels, 1));
    _mm_storeu_si128((void *)(to[2] + at), _mm512_extracti32x4_epi32(pixels, 2));
    _mm_storeu_si128((void *)(to[3] + at), _mm512_extracti32x4_epi32(pixels, 3));
}

// Each 16 bytes of a vector hold four pixels of one row, or the sums of one result of it.
INLINE void across_quads(const struct resize_axis *axis, const uint8_t *const *from, uint8_t *const *to,
                         uint32_t quads) {
    const __m512i by_channel =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
    const __m512i without_fourth =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const uint32_t *words = axis->packed;
    for (uint32_t i = 0; i < axis->key.part_count; i += 4) {
        __m512i results[4];
#pragma GCC unroll 4
        for (uint32_t k = 0; k < 4; k++) {
            size_t at = 3 * (size_t)axis->begins[i + k];
            struct sums sums = zero_sums();
            for (uint32_t quad = 0; quad < quads; quad++, words += DIGITS) {
                __m512i pixels = load_rows(from, at + (size_t)quad * RESIZE_QUAD * 3);
                add_broadcast(&sums, _mm512_shuffle_epi8(pixels, by_channel), words);
            }
            results[k] = finish(&sums);
        }
        store_rows(to, 3 * (size_t)i,
                   _mm512_shuffle_epi8(clip(results[0], results[1], results[2], results[3]), without_fourth));
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
    const uint32_t *words = axis->packed;
    uint32_t quads = axis->taps / RESIZE_QUAD;
    for (uint32_t i = 0; i < axis->key.part_count; i += LANES) {
        __m512i begins = _mm512_loadu_si512(axis->begins + i);
        struct sums sums = zero_sums();
        for (uint32_t quad = 0; quad < quads; quad++, words += DIGITS * LANES) {
            __m512i pixels = _mm512_i32gather_epi32(begins, from + (size_t)quad * RESIZE_QUAD, 1);
            for (uint32_t digit = 0; digit < DIGITS; digit++)
                sums.digit[digit] =
                    _mm512_dpbusd_epi32(sums.digit[digit], pixels, _mm512_load_si512(words + digit * LANES));
        }
        __m512i clipped = _mm512_max_epi32(finish(&sums), _mm512_setzero_si512());
        _mm_storeu_si128((void *)(to + i), _mm512_cvtusepi32_epi8(clipped));
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

// The bytes of a vector's columns that `mask` names.
INLINE void down_columns(const uint32_t *words, uint32_t used, const uint8_t *from, size_t stride,
                         __mmask64 mask, uint8_t *to) {
    struct sums sums[4] = {zero_sums(), zero_sums(), zero_sums(), zero_sums()};
    for (uint32_t tap = 0; tap < used; tap += RESIZE_QUAD, words += DIGITS) {
        __m512i rows[RESIZE_QUAD];
#pragma GCC unroll 4
        for (uint32_t k = 0; k < RESIZE_QUAD; k++) {
            // Weights behind the last row are 0.
            uint32_t row = tap + k < used ? tap + k : used - 1;
            rows[k] = _mm512_maskz_loadu_epi8(mask, from + row * stride);
        }
        __m512i low01 = _mm512_unpacklo_epi8(rows[0], rows[1]),
                high01 = _mm512_unpackhi_epi8(rows[0], rows[1]);
        __m512i low23 = _mm512_unpacklo_epi8(rows[2], rows[3]),
                high23 = _mm512_unpackhi_epi8(rows[2], rows[3]);
        add_broadcast(&sums[0], _mm512_unpacklo_epi16(low01, low23), words);
        add_broadcast(&sums[1], _mm512_unpackhi_epi16(low01, low23), words);
        add_broadcast(&sums[2], _mm512_unpacklo_epi16(high01, high23), words);
        add_broadcast(&sums[3], _mm512_unpackhi_epi16(high01, high23), words);
    }
    _mm512_mask_storeu_epi8(to, mask,
                            clip(finish(&sums[0]), finish(&sums[1]), finish(&sums[2]), finish(&sums[3])));
}

TARGET static void down(const struct resize_axis *axis, uint32_t result, const uint8_t *from, size_t stride,
                        size_t bytes, uint8_t *to) {
    const uint32_t *words = axis->packed + (size_t)result * (axis->taps / RESIZE_QUAD) * DIGITS;
    size_t done = 0;
    for (; done + sizeof(__m512i) <= bytes; done += sizeof(__m512i))
        down_columns(words, axis->used[result], from + done, stride, ~UINT64_C(0), to + done);
    if (done < bytes)
        down_columns(words, axis->used[result], from + done, stride, (UINT64_C(1) << (bytes - done)) - 1,
                     to + done);
}

const struct resize_kernels resize_avx512 = {"avx512", pack, across, down};

#endif
