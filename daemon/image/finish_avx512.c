#include "daemon/image/finish_avx512.h"

#ifdef FINISH_AVX512

#include <immintrin.h>
#include <string.h>

// Unrolled loops keep vectors in registers, which plain -O2 of gcc 12 would not try.
#if defined __GNUC__ && !defined __clang__ && defined __OPTIMIZE__
#pragma GCC optimize("O3")
#endif

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

// Of the first `count` bytes; all of them if there are more.
INLINE __mmask64 first_bytes(size_t count) {
    return count >= BYTES ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1;
}

// What is left of `count` bytes behind some.
INLINE size_t behind(size_t count, size_t bytes) {
    return count > bytes ? count - bytes : 0;
}

// As much of a vector as there is; whole ones without a mask, which takes less time.
INLINE __m512i load(const uint8_t *from, size_t count) {
    return count >= BYTES ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi8(first_bytes(count), from);
}

// Stores as much of a vector as there is room for.
INLINE void store(uint8_t *to, size_t room, __m512i vector) {
    if (room >= BYTES)
        _mm512_storeu_si512(to, vector);
    else
        _mm512_mask_storeu_epi8(to, first_bytes(room), vector);
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

// The tables of each byte of an element.
INLINE void load_tables(const uint8_t *table, uint32_t element, struct byte_table bytes[4]) {
    for (uint32_t byte = 0; byte < element; byte++)
        bytes[byte] = load_table(table, element, byte);
}

// So that unpacking, which stays within 16 bytes, leaves elements in order: the 8 bytes that go to each half, or the 4
// bytes that go to each quarter.
INLINE __m512i spread(uint32_t element, __m512i values) {
    if (element == 1)
        return values;
    if (element == 2)
        return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), values);
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                                    values);
}

// The elements of 64 values, which are spread: as many vectors as an element has bytes.
INLINE void find_elements(const struct byte_table bytes[4], uint32_t element, __m512i values,
                          __m512i elements[4]) {
    __m512i a = find(&bytes[0], values);
    if (element == 1) {
        elements[0] = a;
        return;
    }
    __m512i b = find(&bytes[1], values);
    __m512i low_ab = _mm512_unpacklo_epi8(a, b), high_ab = _mm512_unpackhi_epi8(a, b);
    if (element == 2) {
        elements[0] = low_ab;
        elements[1] = high_ab;
        return;
    }
    __m512i c = find(&bytes[2], values), d = find(&bytes[3], values);
    __m512i low_cd = _mm512_unpacklo_epi8(c, d), high_cd = _mm512_unpackhi_epi8(c, d);
    elements[0] = _mm512_unpacklo_epi16(low_ab, low_cd);
    elements[1] = _mm512_unpackhi_epi16(low_ab, low_cd);
    elements[2] = _mm512_unpacklo_epi16(high_ab, high_cd);
    elements[3] = _mm512_unpackhi_epi16(high_ab, high_cd);
}

INLINE void look_up_some(const uint8_t *table, uint32_t element, const uint8_t *values, size_t count,
                         uint8_t *to) {
    struct byte_table bytes[4];
    load_tables(table, element, bytes);
    for (size_t i = 0; i < count; i += BYTES, to += (size_t)element * BYTES) {
        size_t room = element * (count - i);
        __m512i elements[4];
        find_elements(bytes, element, spread(element, load(values + i, count - i)), elements);
        for (uint32_t part = 0; part < element; part++)
            store(to + (size_t)part * BYTES, behind(room, (size_t)part * BYTES), elements[part]);
    }
}

TARGET static void look_up(const uint8_t *table, uint32_t element, const uint8_t *values, size_t count,
                           uint8_t *to) {
    if (element == 1)
        look_up_some(table, 1, values, count, to);
    else if (element == 2)
        look_up_some(table, 2, values, count, to);
    else
        look_up_some(table, 4, values, count, to);
}

static const uint8_t ascending[BYTES] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                         16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                         32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                         48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

// The places of 64 values among three vectors.
struct places {
    __m512i place; // modulo 128 among the first two, modulo 64 in the third
    __mmask64 in_third;
};

// Places from 128 on have the highest bit, which the instructions that take values ignore.
INLINE struct places places_at(__m512i place) {
    return (struct places){place, _mm512_movepi8_mask(place)};
}

INLINE __m512i take(struct places places, __m512i first, __m512i second, __m512i third) {
    __m512i values = _mm512_permutex2var_epi8(first, places.place, second);
    return _mm512_mask_permutexvar_epi8(values, places.in_third, places.place, third);
}

INLINE __m512i three_times(__m512i places) {
    return _mm512_add_epi8(places, _mm512_add_epi8(places, places));
}

// The places of `count` values that are `step` bytes apart.
INLINE struct places places_of(size_t step, bool mirror, size_t count) {
    __m512i pixel = _mm512_loadu_si512(ascending);
    if (mirror)
        pixel = _mm512_sub_epi8(_mm512_set1_epi8((char)(count - 1)), pixel);
    return places_at(step == 3 ? three_times(pixel) : pixel);
}

// Up to 64 values. No byte behind the last pixel's is read.
INLINE void split_some(const uint8_t *pixels, size_t step, struct places places, size_t count, uint8_t *to) {
    size_t bytes = (count - 1) * step + 1;
    __m512i first = load(pixels, bytes), second = load(pixels + BYTES, behind(bytes, BYTES));
    __m512i third = load(pixels + 2 * (size_t)BYTES, behind(bytes, 2 * (size_t)BYTES));
    store(to, count, take(places, first, second, third));
}

INLINE void split_steps(const uint8_t *pixels, size_t step, bool mirror, size_t count, uint8_t *to) {
    const struct places places = places_of(step, mirror, BYTES);
    size_t rest = count % BYTES;
    for (size_t done = 0; done < count - rest; done += BYTES)
        split_some(pixels + (mirror ? count - BYTES - done : done) * step, step, places, BYTES, to + done);
    if (rest)
        split_some(pixels + (mirror ? 0 : count - rest) * step, step, places_of(step, mirror, rest), rest,
                   to + count - rest);
}

TARGET static void split(const uint8_t *pixels, size_t step, bool mirror, size_t count, uint8_t *to) {
    if (step == 3)
        split_steps(pixels, 3, mirror, count, to);
    else
        split_steps(pixels, 1, mirror, count, to);
}

// Where bytes come from when the elements of three vectors are put in turns: the place in the first two vectors, or,
// with the highest bit, in the third.
#define IN_TURNS_1(i)     (i), 64 + (i), 128 + (i)
#define IN_TURNS_2(i)     2 * (i), 2 * (i) + 1, 64 + 2 * (i), 65 + 2 * (i), 128 + 2 * (i), 129 + 2 * (i)
#define BYTES_OF_4(i)     (i), (i) + 1, (i) + 2, (i) + 3
#define IN_TURNS_4(i)     BYTES_OF_4(4 * (i)), BYTES_OF_4(64 + 4 * (i)), BYTES_OF_4(128 + 4 * (i))
#define FOUR(turns, i)    turns(i), turns((i) + 1), turns((i) + 2), turns((i) + 3)
#define SIXTEEN(turns, i) FOUR(turns, i), FOUR(turns, (i) + 4), FOUR(turns, (i) + 8), FOUR(turns, (i) + 12)
static const uint8_t in_turns[3][3 * BYTES] = {
    {SIXTEEN(IN_TURNS_1, 0), SIXTEEN(IN_TURNS_1, 16), SIXTEEN(IN_TURNS_1, 32), SIXTEEN(IN_TURNS_1, 48)},
    {SIXTEEN(IN_TURNS_2, 0), SIXTEEN(IN_TURNS_2, 16)},
    {SIXTEEN(IN_TURNS_4, 0)},
};

// The values of 64 pixels are split into three vectors, each is looked up in its table, and their elements are put in
// turns again.
INLINE void look_up_three(const uint8_t *tables, uint32_t element, const uint8_t *values, size_t count,
                          uint8_t *to) {
    struct byte_table bytes[3][4];
    struct places values_at[3], elements_at[3];
    for (uint32_t i = 0; i < 3; i++) {
        __m512i first = three_times(spread(element, _mm512_loadu_si512(ascending)));
        values_at[i] = places_at(_mm512_add_epi8(first, _mm512_set1_epi8((char)i)));
        elements_at[i] = places_at(_mm512_loadu_si512(in_turns[element / 2] + (size_t)i * BYTES));
        load_tables(tables + (size_t)i * IMAGE_TABLE_VALUES * element, element, bytes[i]);
    }
    for (size_t i = 0; i < count; i += 3 * (size_t)BYTES) {
        size_t room = element * (count - i);
        __m512i first = load(values + i, count - i), elements[3][4];
        __m512i second = load(values + i + BYTES, behind(count - i, BYTES));
        __m512i third = load(values + i + 2 * (size_t)BYTES, behind(count - i, 2 * (size_t)BYTES));
        for (uint32_t channel = 0; channel < 3; channel++)
            find_elements(bytes[channel], element, take(values_at[channel], first, second, third),
                          elements[channel]);
        for (uint32_t part = 0; part < 3 * element; part++) {
            __m512i merged = take(elements_at[part % 3], elements[0][part / 3], elements[1][part / 3],
                                  elements[2][part / 3]);
            store(to + i * element + (size_t)part * BYTES, behind(room, (size_t)part * BYTES), merged);
        }
    }
}

TARGET static void look_up_colours(const uint8_t *tables, uint32_t element, const uint8_t *values,
                                   size_t count, uint8_t *to) {
    if (element == 1)
        look_up_three(tables, 1, values, count, to);
    else if (element == 2)
        look_up_three(tables, 2, values, count, to);
    else
        look_up_three(tables, 4, values, count, to);
}

// 21 pixels of three channels in 63 bytes, the last one first, behind a byte that does not matter and before another.
static const uint8_t mirrored_colours[BYTES + 1] = {
    0,  60, 61, 62, 57, 58, 59, 54, 55, 56, 51, 52, 53, 48, 49, 50, 45, 46, 47, 42, 43, 44,
    39, 40, 41, 36, 37, 38, 33, 34, 35, 30, 31, 32, 27, 28, 29, 24, 25, 26, 21, 22, 23, 18,
    19, 20, 15, 16, 17, 12, 13, 14, 9,  10, 11, 6,  7,  8,  3,  4,  5,  0,  1,  2,  0};

// Vectors are read in order, and each is put before the one that was read before it. All of a vector is read and
// stored: its last byte is of the next pixel, which overwrites the one that does not matter. The rest goes together
// with pixels that are there already, or, in a row of less than a vector, pixel by pixel.
INLINE void mirror_some(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *to) {
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

TARGET static void mirror(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *to) {
    if (channels == 3)
        mirror_some(pixels, 3, count, to);
    else
        mirror_some(pixels, 1, count, to);
}

const struct finish_kernels finish_avx512 = {"avx512", split, mirror, look_up, look_up_colours};

#endif
