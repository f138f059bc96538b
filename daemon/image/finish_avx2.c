#include "daemon/image/finish_avx2.h"

#ifdef FINISH_AVX2

#include <immintrin.h>
#include <string.h>

// vpshufb moves bytes within 16 of them. Values are looked up as in the plain set: gathering elements of 2 or 4 bytes,
// and putting them together from tables of 16 entries, both took longer (bench/README.md, "Encoded images").
#define TARGET __attribute__((target("avx2")))
#define INLINE TARGET static inline __attribute__((always_inline))
#define BYTES  16u // of a vector
#define MOST   5u  // whole pixels of three channels in it
#define NONE   -1  // an index for which a byte becomes 0

INLINE __m128i load(const uint8_t *from) {
    return _mm_loadu_si128((const void *)from);
}

INLINE void store(uint8_t *to, __m128i vector) {
    _mm_storeu_si128((void *)to, vector);
}

INLINE __m128i backwards(__m128i vector) {
    return _mm_shuffle_epi8(vector, _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
}

// 16 values that are 3 bytes apart. The last vector ends with the last value: no byte behind it is read.
INLINE __m128i sixteenth(const uint8_t *pixels) {
    const __m128i first =
        _mm_setr_epi8(0, 3, 6, 9, 12, 15, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE);
    const __m128i second =
        _mm_setr_epi8(NONE, NONE, NONE, NONE, NONE, NONE, 2, 5, 8, 11, 14, NONE, NONE, NONE, NONE, NONE);
    const __m128i third =
        _mm_setr_epi8(NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, 3, 6, 9, 12, 15);
    return _mm_or_si128(
        _mm_or_si128(_mm_shuffle_epi8(load(pixels), first), _mm_shuffle_epi8(load(pixels + BYTES), second)),
        _mm_shuffle_epi8(load(pixels + 2 * (size_t)BYTES - 2), third));
}

INLINE void split_16(const uint8_t *pixels, size_t step, bool mirror, size_t count, size_t done,
                     uint8_t *to) {
    const uint8_t *from = pixels + (mirror ? count - BYTES - done : done) * step;
    __m128i values = step == 3 ? sixteenth(from) : load(from);
    store(to + done, mirror ? backwards(values) : values);
}

// The last vector goes together with values that are there already, or, if there is only one, value by value.
TARGET static void split(const uint8_t *pixels, size_t step, bool mirror, size_t count, uint8_t *to) {
    if (count < BYTES) {
        finish_plain.split(pixels, step, mirror, count, to);
        return;
    }
    for (size_t done = 0; done + BYTES <= count; done += BYTES)
        split_16(pixels, step, mirror, count, done, to);
    split_16(pixels, step, mirror, count, count - BYTES, to);
}

// Vectors are read in order, and each is put before the one that was read before it. All of a vector is read and
// stored: its last byte is of the next pixel, which overwrites the first one, which does not matter.
TARGET static void mirror_colours(const uint8_t *pixels, size_t count, uint8_t *to) {
    const __m128i order = _mm_setr_epi8(NONE, 12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2);
    const size_t bytes = (size_t)MOST * 3;
    uint8_t *end = to + count * 3;
    for (; count > MOST; count -= MOST, pixels += bytes, end -= bytes)
        store(end - BYTES, _mm_shuffle_epi8(load(pixels), order));
    finish_plain.mirror(pixels, 3, count, to);
}

TARGET static void mirror(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *to) {
    if (channels == 3)
        mirror_colours(pixels, count, to);
    else
        split(pixels, 1, true, count, to);
}

TARGET static void look_up(const uint8_t *table, uint32_t element, const uint8_t *values, size_t count,
                           uint8_t *to) {
    finish_plain.look_up(table, element, values, count, to);
}

TARGET static void look_up_colours(const uint8_t *tables, uint32_t element, const uint8_t *values,
                                   size_t count, uint8_t *to) {
    finish_plain.look_up_colours(tables, element, values, count, to);
}

const struct finish_kernels finish_avx2 = {"avx2", split, mirror, look_up, look_up_colours};

#endif
