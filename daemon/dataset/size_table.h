// The sizes of a ragged field's samples alone, to be summed up in random order: in the index, each lies in a cache
// line of its own, and few of these lines would still be in the cache.
#ifndef FEEDD_DAEMON_DATASET_SIZE_TABLE_H
#define FEEDD_DAEMON_DATASET_SIZE_TABLE_H

#include <stdint.h>

#include "daemon/dataset/dataset.h"

// The most bytes that a table may have. A larger one would not stay in the cache, either.
#define SIZE_TABLE_MOST (64u << 20)

// Immutable.
struct size_table {
    bool wide; // 4 bytes for each sample; or else 2
    uint32_t wide_sizes[];
};

// Of the samples that a dataset stores, in a column of extents. NULL: it would be larger than SIZE_TABLE_MOST, or there
// is no memory; then the index is used. To be freed with free().
struct size_table *size_table_make(const struct dataset_column *column, const uint8_t *index,
                                   uint64_t samples);

static inline uint64_t size_table_get(const struct size_table *table, uint64_t sample) {
    const uint16_t *narrow_sizes = (const void *)table->wide_sizes;
    return table->wide ? table->wide_sizes[sample] : narrow_sizes[sample];
}

// The sum of the sizes of `count` samples. A sample that is UINT64_MAX counts as 0.
uint64_t size_table_sum(const struct size_table *table, const uint64_t *samples, uint32_t count);

// Prefetches what size_table_sum will read.
void size_table_prefetch(const struct size_table *table, const uint64_t *samples, uint32_t count);

#endif
