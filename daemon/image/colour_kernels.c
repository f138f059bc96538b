#include "daemon/image/colour_kernels.h"

#include <stdbool.h>
#include <string.h>

// Vectors pay off where plain -O2 of gcc 12 would not try. The build has -ffp-contract=off: what is rounded once is
// written as FUSED.
#if defined __GNUC__ && !defined __clang__ && defined __OPTIMIZE__
#pragma GCC optimize("O3", "no-trapping-math")
#endif

#define BLOCK 1024u // pixels that are split into planes at a time

// With a ?: gcc sees a branch, and no vectors.
static inline uint8_t either(bool first, uint8_t a, uint8_t b) {
    const uint8_t mask = (uint8_t) - (int32_t)first;
    return (uint8_t)((a & mask) | (b & ~mask));
}

static void map_plain(uint8_t *values, size_t count, const uint8_t table[256]) {
    for (size_t i = 0; i < count; i++)
        values[i] = table[values[i]];
}

static void map_rgb_plain(uint8_t *rgb, size_t pixels, uint8_t tables[3][256]) {
    for (size_t i = 0; i < pixels; i++) {
        rgb[3 * i] = tables[0][rgb[3 * i]];
        rgb[3 * i + 1] = tables[1][rgb[3 * i + 1]];
        rgb[3 * i + 2] = tables[2][rgb[3 * i + 2]];
    }
}

#if defined __FMA__ || defined __ARM_FEATURE_FMA
#define FUSED_PLAIN __builtin_fmaf
#else
// The product of two floats is exact in a double. Their sum with a third is made odd where it is not exact, so that
// rounding it to a float rounds as if it were (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums",
// 2008).
static inline float fused_plain(float a, float b, float c) {
    const double product = (double)a * (double)b, sum = product + (double)c;
    const double part = sum - product, lost = product - (sum - part) + ((double)c - part);
    int64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    const int64_t nearer = (lost > 0) == (sum > 0) ? 1 : -1;
    bits += lost != 0 && !(bits & 1) ? nearer : 0;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return (float)odd;
}
#define FUSED_PLAIN fused_plain
#endif

#define SET(loop) loop##_plain
#define SET_NAME  "plain"
#define FUSED     FUSED_PLAIN
#define MAP       map_plain
#define MAP_RGB   map_rgb_plain
#include "daemon/image/colour_loops.h"

// clang has no such pragmas and uses the plain set.
#if defined __x86_64__ && !defined __clang__
#define MORE_SETS
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define SET(loop) loop##_avx2
#define SET_NAME  "avx2"
#define FUSED     __builtin_fmaf
#define MAP       map_plain
#define MAP_RGB   map_rgb_plain
#include "daemon/image/colour_loops.h"
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#define SET(loop) loop##_avx512
#define SET_NAME  "avx512"
#define FUSED     __builtin_fmaf
#define MAP       map_plain
#define MAP_RGB   map_rgb_plain
#include "daemon/image/colour_loops.h"
#pragma GCC pop_options

// These processors look up 64 values at once.
#pragma GCC push_options
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,prefer-vector-width=512")
typedef uint8_t __attribute__((vector_size(64), aligned(1), may_alias)) bytes64;

static inline bytes64 choose(bytes64 mask, bytes64 yes, bytes64 no) {
    return (yes & mask) | (no & ~mask);
}

static inline bytes64 look_up(bytes64 index, const uint8_t table[256]) {
    const bytes64 *quarters = (const bytes64 *)table;
    const bytes64 low = __builtin_shuffle(quarters[0], quarters[1], index); // by the lower 7 bits
    const bytes64 high = __builtin_shuffle(quarters[2], quarters[3], index);
    return choose((bytes64)(index < 128), low, high);
}

static void map_vbmi(uint8_t *values, size_t count, const uint8_t table[256]) {
    size_t i = 0;
    for (; i + 64 <= count; i += 64)
        *(bytes64 *)(values + i) = look_up(*(const bytes64 *)(values + i), table);
    map_plain(values + i, count - i, table);
}

static void map_rgb_vbmi(uint8_t *rgb, size_t pixels, uint8_t tables[3][256]) {
    uint8_t channels[192];
    for (uint32_t i = 0; i < sizeof channels; i++)
        channels[i] = (uint8_t)(i % 3);
    size_t i = 0;
    for (; i + 64 <= pixels; i += 64)
        for (uint32_t part = 0; part < 192; part += 64) {
            bytes64 *values = (bytes64 *)(rgb + 3 * i + part);
            const bytes64 channel = *(const bytes64 *)(channels + part);
            const bytes64 rest =
                choose((bytes64)(channel == 1), look_up(*values, tables[1]), look_up(*values, tables[2]));
            *values = choose((bytes64)(channel == 0), look_up(*values, tables[0]), rest);
        }
    map_rgb_plain(rgb + 3 * i, pixels - i, tables);
}

#define SET(loop) loop##_vbmi
#define SET_NAME  "avx512vbmi"
#define FUSED     __builtin_fmaf
#define MAP       map_vbmi
#define MAP_RGB   map_rgb_vbmi
#include "daemon/image/colour_loops.h"
#pragma GCC pop_options
#endif

const struct colour_kernels *colour_kernels(uint32_t index) {
    const struct colour_kernels *sets[4];
    uint32_t count = 0;
#ifdef MORE_SETS
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("avx512vbmi"))
        sets[count++] = &set_vbmi;
    if (avx512)
        sets[count++] = &set_avx512;
    if (avx2)
        sets[count++] = &set_avx2;
#endif
    sets[count++] = &set_plain;
    return index < count ? sets[index] : NULL;
}
