#include "daemon/image/resize_kernels.h"

#include "base/sizes.h"
#include "daemon/image/resize_avx2.h"
#include "daemon/image/resize_avx512.h"

// Vectors pay off where plain -O2 of gcc 12 would not try.
#if defined __GNUC__ && !defined __clang__ && defined __OPTIMIZE__
#pragma GCC optimize("O3")
#endif

#define BLOCK 512u // bytes of a row whose sums stay in the first-level cache

static void pack_plain(struct resize_axis *axis) {
    (void)axis;
}

static void across_one(const struct resize_axis *axis, const uint8_t *from, uint8_t *to) {
    const int32_t *weights = axis->weights;
    for (uint32_t i = 0; i < axis->key.part_count; i++, weights += axis->taps) {
        const uint8_t *pixel = from + axis->begins[i];
        uint32_t sum = 0;
        for (uint32_t tap = 0; tap < axis->used[i]; tap++)
            sum += (uint32_t)weights[tap] * pixel[tap];
        *to++ = resize_pixel(sum);
    }
}

static void across_three(const struct resize_axis *axis, const uint8_t *from, uint8_t *to) {
    const int32_t *weights = axis->weights;
    for (uint32_t i = 0; i < axis->key.part_count; i++, weights += axis->taps) {
        const uint8_t *pixel = from + 3 * (size_t)axis->begins[i];
        uint32_t red = 0, green = 0, blue = 0;
        for (uint32_t tap = 0; tap < axis->used[i]; tap++, pixel += 3) {
            uint32_t weight = (uint32_t)weights[tap];
            red += weight * pixel[0];
            green += weight * pixel[1];
            blue += weight * pixel[2];
        }
        *to++ = resize_pixel(red);
        *to++ = resize_pixel(green);
        *to++ = resize_pixel(blue);
    }
}

static void across_plain(const struct resize_axis *axis, uint32_t channels, const uint8_t *const *from,
                         uint8_t *const *to) {
    for (uint32_t row = 0; row < RESIZE_ROWS; row++)
        if (channels == 1)
            across_one(axis, from[row], to[row]);
        else
            across_three(axis, from[row], to[row]);
}

static void down_plain(const struct resize_axis *axis, uint32_t result, const uint8_t *from, size_t stride,
                       size_t bytes, uint8_t *to) {
    const int32_t *weights = axis->weights + (size_t)result * axis->taps;
    uint32_t sums[BLOCK];
    for (size_t done = 0; done < bytes; done += BLOCK) {
        size_t count = (size_t)min_u64(BLOCK, bytes - done);
        const uint8_t *row = from + done;
        for (size_t i = 0; i < count; i++)
            sums[i] = (uint32_t)weights[0] * row[i];
        for (uint32_t tap = 1; tap < axis->used[result]; tap++) {
            uint32_t weight = (uint32_t)weights[tap];
            row += stride;
            for (size_t i = 0; i < count; i++)
                sums[i] += weight * row[i];
        }
        for (size_t i = 0; i < count; i++)
            to[done + i] = resize_pixel(sums[i]);
    }
}

static const struct resize_kernels plain = {"plain", pack_plain, across_plain, down_plain};

size_t resize_axis_reach(const struct resize_axis *axis, uint32_t channels) {
    // Whole vectors of 16 bytes, of which RESIZE_QUAD pixels are used.
    uint32_t last = axis->begins[axis->key.part_count - 1];
    return ((size_t)last + axis->taps) * channels + 16 - RESIZE_QUAD * 3;
}

size_t resize_row_bytes(uint32_t results, uint32_t channels) {
    return (size_t)align_up(align_up(results, RESIZE_TILE) * channels + RESIZE_OVER, CACHE_LINE);
}

const struct resize_kernels *resize_kernels(uint32_t index) {
    const struct resize_kernels *sets[3];
    uint32_t count = 0;
#ifdef RESIZE_AVX512
    if (resize_avx512_runs())
        sets[count++] = &resize_avx512;
#endif
#ifdef RESIZE_AVX2
    if (__builtin_cpu_supports("avx2"))
        sets[count++] = &resize_avx2;
#endif
    sets[count++] = &plain;
    return index < count ? sets[index] : NULL;
}
