#include "daemon/dataset/size_summary.h"

#include <math.h>

#include "base/sizes.h"

#define SIZE_MOST 0x1p63 // doubles below it fit 64 bits

static uint32_t class_of(uint64_t bytes) {
    if (bytes < 8)
        return (uint32_t)bytes;
    uint32_t power = 63 - (uint32_t)__builtin_clzll(bytes);
    return (power - 2) * 8 + (uint32_t)(bytes >> (power - 3) & 7);
}

void size_summary_add(struct size_summary *summary, uint64_t bytes) {
    uint32_t class = class_of(bytes);
    summary->samples++;
    summary->bytes += (double)bytes;
    summary->squares += (double)bytes * (double)bytes;
    summary->largest = max_u64(summary->largest, bytes);
    summary->counts[class]++;
    summary->largest_of[class] = max_u64(summary->largest_of[class], bytes);
}

uint64_t size_summary_most(const struct size_summary *summary, uint64_t count, bool repeats) {
    uint64_t bytes = 0, more;
    if (repeats)
        return __builtin_mul_overflow(count, summary->largest, &bytes) ? UINT64_MAX : bytes;
    for (uint32_t class = SIZE_CLASSES; class -- > 0 && count;) {
        uint64_t taken = min_u64(count, summary->counts[class]);
        if (__builtin_mul_overflow(taken, summary->largest_of[class], &more) ||
            __builtin_add_overflow(bytes, more, &bytes))
            return UINT64_MAX;
        count -= taken;
    }
    return bytes;
}

uint64_t size_summary_usual(const struct size_summary *summary, uint64_t count) {
    if (!summary->samples)
        return 0;
    double samples = (double)summary->samples, batch = (double)count;
    double mean = summary->bytes / samples;
    double variance = fmax(0, summary->squares / samples - mean * mean);
    double usual = mean * batch + fmin(4 * sqrt(variance * batch), mean * batch / 2) + 1;
    return usual < SIZE_MOST ? (uint64_t)usual : UINT64_MAX;
}

uint64_t size_summary_mean(const struct size_summary *summary) {
    double mean = summary->samples ? ceil(summary->bytes / (double)summary->samples) : 0;
    return mean < SIZE_MOST ? (uint64_t)mean : UINT64_MAX;
}
