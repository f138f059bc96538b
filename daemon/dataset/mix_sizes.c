#include "daemon/dataset/mix_sizes.h"

#include "base/sizes.h"
#include "daemon/on_error.h"

static const struct size_summary *sizes_of(const struct dataset *mix, uint32_t source, uint32_t field) {
    return mix->sources[source]->sizes[field];
}

void mix_sizes_average(const struct dataset *mix, const uint32_t *weights, uint32_t field,
                       struct size_summary *sizes) {
    *sizes = (struct size_summary){0};
    for (uint32_t i = 0; i < mix->layout->part_count; i++) {
        const struct size_summary *source = sizes_of(mix, i, field);
        const double each = (double)weights[i] / (double)max_u64(source->samples, 1);
        sizes->samples += weights[i];
        sizes->bytes += source->bytes * each;
        sizes->squares += source->squares * each;
        sizes->largest = max_u64(sizes->largest, source->largest);
        for (uint32_t class = 0; class < SIZE_CLASSES; class ++) {
            sizes->counts[class] += source->counts[class];
            sizes->largest_of[class] = max_u64(sizes->largest_of[class], source->largest_of[class]);
        }
    }
}

// What a source can contribute to a batch.
struct share {
    uint64_t draws; // at most
    uint64_t times; // that the same sample may be among them
};

// Before any position n, a source with weight w of W has given more than n w / W - 1 and fewer than n w / W + 1
// samples (order/mix.h). So there are fewer than count w / W + 2 among `count` consecutive positions.
static uint64_t most_draws(uint64_t count, uint64_t weight, uint64_t total) {
    const unsigned __int128 share = (unsigned __int128)count * weight;
    return min_u64(count, (uint64_t)((share + total - 1) / total) + 1);
}

// An epoch of the source has a sample once, and `draws` consecutive draws may begin with the last one of an epoch. A
// sample may take the places of any others that cannot be read.
static uint64_t most_times(const struct dataset *mix, const struct dataset *source, uint64_t draws) {
    const uint32_t kind = source->layout->selection.kind;
    if (kind == SELECTION_LIST || kind == SELECTION_WEIGHTED_1 || mix->on_error == ON_ERROR_REPLACE)
        return draws;
    return draws < 2 ? draws : 2 + (draws - 2) / source->layout->samples;
}

static void find_shares(const struct dataset *mix, const uint32_t *weights, uint64_t count,
                        struct share *shares) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < mix->layout->part_count; i++)
        total += weights[i];
    for (uint32_t i = 0; i < mix->layout->part_count; i++) {
        shares[i].draws = most_draws(count, weights[i], total);
        shares[i].times = most_times(mix, mix->sources[i], shares[i].draws);
    }
}

// How many of the largest samples that are left are in this class, and how large they are at most.
static uint64_t take_class(const struct dataset *mix, uint32_t field, uint32_t class, struct share *shares,
                           uint64_t *largest) {
    uint64_t taken = 0, available;
    *largest = 0;
    for (uint32_t i = 0; i < mix->layout->part_count; i++) {
        const struct size_summary *sizes = sizes_of(mix, i, field);
        if (!shares[i].draws || !sizes->counts[class])
            continue;
        if (__builtin_mul_overflow(sizes->counts[class], shares[i].times, &available))
            available = UINT64_MAX;
        const uint64_t here = min_u64(shares[i].draws, available);
        shares[i].draws -= here;
        taken += here;
        *largest = max_u64(*largest, sizes->largest_of[class]);
    }
    return taken;
}

uint64_t mix_sizes_most(const struct dataset *mix, const uint32_t *weights, uint32_t field, uint64_t count) {
    struct share shares[MIX_MAX_SOURCES];
    uint64_t bytes = 0, largest, more;
    find_shares(mix, weights, count, shares);
    for (uint32_t class = SIZE_CLASSES; class -- > 0 && count;) {
        const uint64_t taken = min_u64(count, take_class(mix, field, class, shares, &largest));
        if (__builtin_mul_overflow(taken, largest, &more) || __builtin_add_overflow(bytes, more, &bytes))
            return UINT64_MAX;
        count -= taken;
    }
    return bytes;
}
