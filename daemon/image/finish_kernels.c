#include "daemon/image/finish_kernels.h"

#include <endian.h>
#include <string.h>

#include "daemon/image/finish_avx2.h"
#include "daemon/image/finish_avx512.h"

// Unrolled loops pay off where plain -O2 of gcc 12 would not try.
#if defined __GNUC__ && !defined __clang__ && defined __OPTIMIZE__
#pragma GCC optimize("O3")
#endif

#define INLINE static inline __attribute__((always_inline))
#define WORD   8u // values that are read at once

static void split(const uint8_t *pixels, size_t step, bool mirror, size_t count, uint8_t *to) {
    if (mirror)
        for (size_t i = 0; i < count; i++)
            to[i] = pixels[(count - 1 - i) * step];
    else
        for (size_t i = 0; i < count; i++)
            to[i] = pixels[i * step];
}

// Four bytes at a time, of which the next pixel overwrites the last one. The first pixel is read, and the last one
// written, without it: nothing beyond either is touched.
static void mirror_colours(const uint8_t *pixels, size_t count, uint8_t *to) {
    const uint8_t *pixel = pixels + 3 * (count - 1);
    const uint8_t first[4] = {pixel[0], pixel[1], pixel[2]};
    if (count > 1) {
        memcpy(to, first, 4);
        for (to += 3, pixel -= 3; pixel > pixels; to += 3, pixel -= 3)
            memcpy(to, pixel, 4);
    }
    memcpy(to, pixel, 3);
}

static void mirror(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *to) {
    if (channels == 3 && count)
        mirror_colours(pixels, count, to);
    else
        for (size_t i = 0; i < count; i++)
            to[i] = pixels[count - 1 - i];
}

// `count` values, each in the table after that of the one before. By memcpy, because elements need not be aligned.
INLINE void look_up_some(const uint8_t *const tables[3], uint32_t element, const uint8_t *values,
                         size_t count, uint8_t *to) {
    size_t i = 0;
    for (; i + 3 * (size_t)WORD <= count; i += 3 * (size_t)WORD)
        for (uint32_t word = 0; word < 3; word++) {
            uint64_t some;
            memcpy(&some, values + i + (size_t)word * WORD, sizeof some);
            some = le64toh(some);
            for (uint32_t byte = 0; byte < WORD; byte++) {
                uint32_t next = word * WORD + byte;
                memcpy(to + (i + next) * element, tables[next % 3] + (some >> (8 * byte) & 255) * element,
                       element);
            }
        }
    for (; i < count; i++)
        memcpy(to + i * element, tables[i % 3] + (size_t)values[i] * element, element);
}

// A loop for each size.
INLINE void look_up_any(const uint8_t *const tables[3], uint32_t element, const uint8_t *values, size_t count,
                        uint8_t *to) {
    if (element == 1)
        look_up_some(tables, 1, values, count, to);
    else if (element == 2)
        look_up_some(tables, 2, values, count, to);
    else
        look_up_some(tables, 4, values, count, to);
}

static void look_up(const uint8_t *table, uint32_t element, const uint8_t *values, size_t count,
                    uint8_t *to) {
    const uint8_t *const tables[3] = {table, table, table};
    look_up_any(tables, element, values, count, to);
}

static void look_up_colours(const uint8_t *tables, uint32_t element, const uint8_t *values, size_t count,
                            uint8_t *to) {
    const size_t bytes = (size_t)IMAGE_TABLE_VALUES * element;
    const uint8_t *const each[3] = {tables, tables + bytes, tables + 2 * bytes};
    look_up_any(each, element, values, count, to);
}

const struct finish_kernels finish_plain = {"plain", split, mirror, look_up, look_up_colours};

const struct finish_kernels *finish_kernels(uint32_t index) {
    const struct finish_kernels *sets[3];
    uint32_t count = 0;
#ifdef FINISH_AVX512
    if (finish_avx512_runs())
        sets[count++] = &finish_avx512;
#endif
#ifdef FINISH_AVX2
    if (__builtin_cpu_supports("avx2"))
        sets[count++] = &finish_avx2;
#endif
    sets[count++] = &finish_plain;
    return index < count ? sets[index] : NULL;
}
