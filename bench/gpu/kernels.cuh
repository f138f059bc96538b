// The kernels of the measurements. One warp handles one sample at a time.
#ifndef FEEDD_BENCH_GPU_KERNELS_CUH
#define FEEDD_BENCH_GPU_KERNELS_CUH

#include "bench/gpu/content.h"
#include "bench/gpu/work.h"

#define BLOCK_THREADS 256u
#define WARP          32u
#define LOADS         8u // of 16 bytes that a thread has in flight at once
#define BURN_STEPS    800u
#define TILE          32u
#define TILE_ROWS     8u

typedef unsigned long long device_word; // what atomicAdd takes

static __device__ uint64_t sum_of_warp(uint64_t value) {
    for (unsigned lanes = WARP / 2; lanes; lanes /= 2)
        value += __shfl_down_sync(0xffffffffu, value, lanes);
    return value;
}

static __device__ void add_to(uint64_t *total, uint64_t value) {
    if (value)
        atomicAdd((device_word *)total, (device_word)value);
}

// Reads every byte of a sample; returns this lane's number of wrong words, or the sum of its words. *number: that of
// the sample.
template <bool BY_SUM>
static __device__ uint64_t read_sample(const ulonglong2 *sample, uint32_t pairs, uint64_t samples,
                                       uint64_t *number) {
    const uint32_t lane = threadIdx.x % WARP;
    uint64_t result = 0, words = 2ull * pairs;
    *number = UINT64_MAX;
    for (uint32_t base = 0; base < pairs; base += WARP * LOADS) {
        ulonglong2 loaded[LOADS];
#pragma unroll
        for (uint32_t i = 0; i < LOADS; i++) {
            uint32_t pair = base + i * WARP + lane;
            loaded[i] = pair < pairs ? sample[pair] : make_ulonglong2(0, 0);
        }
        if (base == 0)
            *number = content_sample(__shfl_sync(0xffffffffu, (device_word)loaded[0].x, 0), words, samples);
#pragma unroll
        for (uint32_t i = 0; i < LOADS; i++) {
            uint32_t pair = base + i * WARP + lane;
            uint64_t place = *number * words + 2ull * pair;
            if (BY_SUM)
                result += loaded[i].x + loaded[i].y;
            else if (pair < pairs)
                result += (loaded[i].x != content_word(place)) + (loaded[i].y != content_word(place + 1));
        }
    }
    return result;
}

// BY_SUM: by check.word_sums, of which the kernel beside kernels that fill the GPU is to take little.
template <bool BY_SUM> static __global__ void check_kernel(struct work_check check) {
    const uint32_t pairs = (uint32_t)(check.sample_bytes / sizeof(ulonglong2));
    const uint64_t warps = (uint64_t)gridDim.x * blockDim.x / WARP;
    const bool first = threadIdx.x % WARP == 0;
    uint64_t wrong = 0, wrong_samples = 0, sum = 0, done = 0;
    for (uint64_t i = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP; i < check.count; i += warps) {
        uint64_t number;
        uint64_t here =
            read_sample<BY_SUM>((const ulonglong2 *)check.data + i * pairs, pairs, check.samples, &number);
        done++;
        if (number == UINT64_MAX) {
            wrong_samples++;
            continue;
        }
        if (BY_SUM) {
            here = sum_of_warp(here);
            wrong += first && here != check.word_sums[number];
        } else {
            wrong += here;
        }
        sum += number;
        if (first && check.seen)
            atomicAdd(&check.seen[number], 1u);
    }
    if (!BY_SUM)
        wrong = sum_of_warp(wrong);
    if (!first)
        return;
    add_to(BY_SUM ? &check.totals->wrong_sums : &check.totals->wrong_words, wrong);
    add_to(&check.totals->wrong_samples, wrong_samples);
    add_to(&check.totals->samples, done);
    add_to(check.sum, sum);
}

static __global__ void make_sums_kernel(struct work_check check) {
    const uint64_t words = check.sample_bytes / sizeof(uint64_t);
    const uint64_t warps = (uint64_t)gridDim.x * blockDim.x / WARP;
    for (uint64_t i = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP; i < check.samples;
         i += warps) {
        uint64_t sum = 0;
        for (uint64_t k = threadIdx.x % WARP; k < words; k += WARP)
            sum += content_word(i * words + k);
        sum = sum_of_warp(sum);
        if (threadIdx.x % WARP == 0)
            check.word_sums[i] = sum;
    }
}

static __global__ void check_epoch_kernel(struct work_check check, uint32_t epochs) {
    uint64_t wrong = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < check.samples;
         i += (uint64_t)gridDim.x * blockDim.x)
        wrong += check.seen[i] != epochs;
    wrong = sum_of_warp(wrong);
    if (threadIdx.x % WARP == 0)
        add_to(&check.totals->not_once, wrong);
}

// Byte by byte, since samples may have any alignment; speed does not matter here.
static __global__ void hash_kernel(struct work_hash hash) {
    const uint32_t lane = threadIdx.x % WARP;
    const uint64_t warps = (uint64_t)gridDim.x * blockDim.x / WARP;
    const uint64_t words = (hash.sample_bytes + 7) / 8;
    for (uint64_t i = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / WARP; i < hash.count; i += warps) {
        const uint8_t *sample = (const uint8_t *)hash.data + i * hash.sample_bytes;
        uint64_t sum = 0;
        for (uint64_t k = lane; k < words; k += WARP) {
            uint64_t word = 0;
            for (uint32_t byte = 0; byte < 8 && 8 * k + byte < hash.sample_bytes; byte++)
                word |= (uint64_t)sample[8 * k + byte] << (8 * byte);
            sum += content_hash_part(word, k);
        }
        sum = sum_of_warp(sum);
        if (lane == 0)
            hash.hashes[i * hash.stride] = sum;
    }
}

static __global__ void sum_kernel(const ulonglong2 *data, uint64_t pairs, uint64_t *total) {
    uint64_t sum = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < pairs;
         i += (uint64_t)gridDim.x * blockDim.x)
        sum += data[i].x + data[i].y;
    sum = sum_of_warp(sum);
    if (threadIdx.x % WARP == 0)
        add_to(total, sum);
}

// Only arithmetic, in four chains per thread. The result is never written, but the compiler cannot know that.
static __global__ void burn_kernel(float *never, float factor) {
    float a = (float)threadIdx.x, b = a + 1, c = a + 2, d = a + 3;
    for (uint32_t i = 0; i < BURN_STEPS; i++) {
        a = fmaf(a, factor, 0.25f);
        b = fmaf(b, factor, 0.25f);
        c = fmaf(c, factor, 0.25f);
        d = fmaf(d, factor, 0.25f);
    }
    if (a + b + c + d == -1.0f)
        *never = a;
}

// c = a b, square, n a multiple of TILE: plain tiles in shared memory, as in any textbook.
static __global__ void multiply_kernel(const float *a, const float *b, float *c, uint32_t n) {
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE + 1];
    const uint32_t column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    float sums[TILE / TILE_ROWS] = {};
    for (uint32_t at = 0; at < n; at += TILE) {
        for (uint32_t i = 0; i < TILE; i += TILE_ROWS) {
            tile_a[threadIdx.y + i][threadIdx.x] = a[(uint64_t)(row + i) * n + at + threadIdx.x];
            tile_b[threadIdx.y + i][threadIdx.x] = b[(uint64_t)(at + threadIdx.y + i) * n + column];
        }
        __syncthreads();
#pragma unroll
        for (uint32_t k = 0; k < TILE; k++)
#pragma unroll
            for (uint32_t i = 0; i < TILE / TILE_ROWS; i++)
                sums[i] = fmaf(tile_a[threadIdx.y + i * TILE_ROWS][k], tile_b[k][threadIdx.x], sums[i]);
        __syncthreads();
    }
    for (uint32_t i = 0; i < TILE / TILE_ROWS; i++)
        c[(uint64_t)(row + i * TILE_ROWS) * n + column] = sums[i];
}

#endif
