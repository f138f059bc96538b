#include "daemon/image/finish_kernels.h"

#ifdef FINISH_AVX512

#include <immintrin.h>
#include <string.h>

// vpermi2b looks 64 values up in half a table of bytes, which is two vectors. Tables of larger elements are one table
// for each of their bytes.
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))
#define INLINE TARGET static inline __attribute__((always_inline))
#define BYTES  64u // of a vector
#define PARTS  (IMAGE_TABLE_VALUES / BYTES)

struct byte_table {
    __m512i part[PARTS];
};

bool finish_avx512_runs(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi");
}

static __mmask64 first_bytes(size_t count) {
    return count >= BYTES ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1;
}

// Byte number `byte` of every element.
INLINE struct byte_table load_table(const uint8_t *table, uint32_t element, uint32_t byte) {
    uint8_t bytes[IMAGE_TABLE_VALUES];
    struct byte_table result;
    for (uint32_t i = 0; i < element * PARTS; i++) {
        __m512i some = _mm512_loadu_si512(table + (size_t)i * BYTES);
        uint8_t *to = bytes + i * (BYTES / element);
        if (element == 1)
            _mm512_storeu_si512(to, some);
        else if (element == 2)
            _mm256_storeu_si256(
                (void *)to, _mm512_cvtepi16_epi8(_mm512_srl_epi16(some, _mm_cvtsi32_si128((int)(8 * byte)))));
        else
            _mm_storeu_si128(
                (void *)to, _mm512_cvtepi32_epi8(_mm512_srl_epi32(some, _mm_cvtsi32_si128((int)(8 * byte)))));
    }
    for (uint32_t i = 0; i < PARTS; i++)
        result.part[i] = _mm512_loadu_si512(bytes + i * BYTES);
    return result;
}

INLINE __m512i find(const struct byte_table *table, __m512i values) {
    __m512i low = _mm512_permutex2var_epi8(table->part[0], values, table->part[1]);
    __m512i high = _mm512_permutex2var_epi8(table->part[2], values, table->part[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(values), low, high);
}

TARGET static void look_up_1(const uint8_t *table, const uint8_t *values, size_t count, uint8_t *to) {
    struct byte_table bytes = load_table(table, 1, 0);
    for (size_t i = 0; i < count; i += BYTES) {
        __mmask64 mask = first_bytes(count - i);
        _mm512_mask_storeu_epi8(to + i, mask, find(&bytes, _mm512_maskz_loadu_epi8(mask, values + i)));
    }
}

// Stores as much of a vector as there is room for.
INLINE void store(uint8_t *to, size_t room, __m512i elements) {
    _mm512_mask_storeu_epi8(to, first_bytes(room), elements);
}

// So that unpacking, which stays within 16 bytes, leaves elements in order: the 8 bytes that go to each half.
INLINE __m512i spread_2(__m512i values) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), values);
}

TARGET static void look_up_2(const uint8_t *table, const uint8_t *values, size_t count, uint8_t *to) {
    struct byte_table low = load_table(table, 2, 0), high = load_table(table, 2, 1);
    for (size_t i = 0; i < count; i += BYTES) {
        size_t room = 2 * (count - i);
        __m512i some = spread_2(_mm512_maskz_loadu_epi8(first_bytes(count - i), values + i));
        __m512i a = find(&low, some), b = find(&high, some);
        store(to + 2 * i, room, _mm512_unpacklo_epi8(a, b));
        if (room > BYTES)
            store(to + 2 * i + BYTES, room - BYTES, _mm512_unpackhi_epi8(a, b));
    }
}

TARGET static void look_up_4(const uint8_t *table, const uint8_t *values, size_t count, uint8_t *to) {
    // 4 bytes to each quarter.
    const __m512i spread = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    struct byte_table bytes[4];
    for (uint32_t i = 0; i < 4; i++)
        bytes[i] = load_table(table, 4, i);
    for (size_t i = 0; i < count; i += BYTES) {
        size_t room = 4 * (count - i);
        __m512i some =
            _mm512_permutexvar_epi32(spread, _mm512_maskz_loadu_epi8(first_bytes(count - i), values + i));
        __m512i a = find(&bytes[0], some), b = find(&bytes[1], some);
        __m512i c = find(&bytes[2], some), d = find(&bytes[3], some);
        __m512i low_ab = _mm512_unpacklo_epi8(a, b), high_ab = _mm512_unpackhi_epi8(a, b);
        __m512i low_cd = _mm512_unpacklo_epi8(c, d), high_cd = _mm512_unpackhi_epi8(c, d);
        __m512i parts[4] = {_mm512_unpacklo_epi16(low_ab, low_cd), _mm512_unpackhi_epi16(low_ab, low_cd),
                            _mm512_unpacklo_epi16(high_ab, high_cd), _mm512_unpackhi_epi16(high_ab, high_cd)};
        for (uint32_t part = 0; part < 4 && part * BYTES < room; part++)
            store(to + 4 * i + (size_t)part * BYTES, room - (size_t)part * BYTES, parts[part]);
    }
}

TARGET static void look_up(const uint8_t *table, uint32_t element, const uint8_t *values, size_t count,
                           uint8_t *to) {
    if (element == 1)
        look_up_1(table, values, count, to);
    else if (element == 2)
        look_up_2(table, values, count, to);
    else
        look_up_4(table, values, count, to);
}

// The places of 64 values among three vectors, in which they are `step` bytes apart.
struct places {
    __m512i first_two; // among the first two, modulo 128
    __m512i third;     // in the third
    __mmask64 in_third;
};

static const uint8_t ascending[BYTES] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                         16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                         32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                         48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

INLINE struct places places_of(size_t step, bool mirror) {
    __m512i pixel = _mm512_loadu_si512(ascending);
    if (mirror)
        pixel = _mm512_sub_epi8(_mm512_set1_epi8(BYTES - 1), pixel);
    __m512i place = step == 3 ? _mm512_add_epi8(pixel, _mm512_add_epi8(pixel, pixel)) : pixel;
    // Places from 128 on have the highest bit, which both instructions ignore.
    struct places result = {place, place, _mm512_movepi8_mask(place)};
    return result;
}

TARGET static void split(const uint8_t *pixels, size_t step, bool mirror, size_t count, uint8_t *to) {
    const struct places places = places_of(step, mirror);
    size_t done = 0;
    for (; done + BYTES <= count; done += BYTES) {
        const uint8_t *from = pixels + (mirror ? count - BYTES - done : done) * step;
        size_t bytes = (BYTES - 1) * step + 1; // no byte behind the last pixel's
        __m512i a = _mm512_maskz_loadu_epi8(first_bytes(bytes), from);
        __m512i b = a, c = a;
        if (step == 3) {
            b = _mm512_loadu_si512(from + BYTES);
            c = _mm512_maskz_loadu_epi8(first_bytes(bytes - 2 * (size_t)BYTES), from + 2 * (size_t)BYTES);
        }
        __m512i values = _mm512_permutex2var_epi8(a, places.first_two, b);
        _mm512_storeu_si512(to + done,
                            _mm512_mask_permutexvar_epi8(values, places.in_third, places.third, c));
    }
    for (; done < count; done++)
        to[done] = pixels[(mirror ? count - 1 - done : done) * step];
}

// 21 pixels of three channels in 63 bytes, the last one first, behind a byte that does not matter and before another.
static const uint8_t mirrored_colours[BYTES + 1] = {
    0,  60, 61, 62, 57, 58, 59, 54, 55, 56, 51, 52, 53, 48, 49, 50, 45, 46, 47, 42, 43, 44,
    39, 40, 41, 36, 37, 38, 33, 34, 35, 30, 31, 32, 27, 28, 29, 24, 25, 26, 21, 22, 23, 18,
    19, 20, 15, 16, 17, 12, 13, 14, 9,  10, 11, 6,  7,  8,  3,  4,  5,  0,  1,  2,  0};

// Vectors are read in order, and each is put before the one that was read before it. All of a vector is read and
// stored: its last byte is of the next pixel, which overwrites the one that does not matter. The rest goes together
// with pixels that are there already, or, in a row of less than a vector, pixel by pixel.
TARGET static void mirror(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *to) {
    const size_t most = channels == 3 ? BYTES / 3 : BYTES, bytes = most * channels, all = count;
    const __m512i order = channels == 3
                              ? _mm512_loadu_si512(mirrored_colours)
                              : _mm512_sub_epi8(_mm512_set1_epi8(BYTES - 1), _mm512_loadu_si512(ascending));
    uint8_t *end = to + count * channels;
    for (; count > most; count -= most, pixels += bytes, end -= bytes)
        _mm512_storeu_si512(end - BYTES, _mm512_permutexvar_epi8(order, _mm512_loadu_si512(pixels)));
    if (all >= most) {
        const __m512i last = channels == 3 ? _mm512_loadu_si512(mirrored_colours + 1) : order;
        const __m512i rest = _mm512_maskz_loadu_epi8(first_bytes(bytes), pixels + count * channels - bytes);
        store(to, bytes, _mm512_permutexvar_epi8(last, rest));
        return;
    }
    for (; count > 0; count--, pixels += channels) {
        end -= channels;
        for (uint32_t channel = 0; channel < channels; channel++)
            end[channel] = pixels[channel];
    }
}

const struct finish_kernels finish_avx512 = {"avx512", split, mirror, look_up};

#endif
