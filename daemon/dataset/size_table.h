// The sizes of a ragged field's samples alone, for whoever sums them up in random order: in the index, each would come
// from a cache line of its own, and few lines would still be in the cache.
#ifndef FEEDD_DAEMON_DATASET_SIZE_TABLE_H
#define FEEDD_DAEMON_DATASET_SIZE_TABLE_H

#include <stdint.h>

#include "daemon/dataset/dataset.h"

// Bytes of a table. A larger one would not stay in the cache, either.
#define SIZE_TABLE_MOST (64u << 20)

// Immutable.
struct size_table {
    bool wide; // 4 bytes for each sample; or else 2
    uint32_t wide_sizes[];
};

// Of the samples that a dataset stores, in a column of extents. NULL: it would be larger than SIZE_TABLE_MOST, or there
// is no memory; then the index has to do. To be freed with free().
struct size_table *size_table_make(const struct dataset_column *column, const uint8_t *index,
                                   uint64_t samples);

static inline uint64_t size_table_get(const struct size_table *table, uint64_t sample) {
    const uint16_t *narrow_sizes = (const void *)table->wide_sizes;
    return table->wide ? table->wide_sizes[sample] : narrow_sizes[sample];
}

// What `count` samples have together. One that is UINT64_MAX has nothing.
uint64_t size_table_sum(const struct size_table *table, const uint64_t *samples, uint32_t count);

// Begins to load what that will need.
void size_table_prefetch(const struct size_table *table, const uint64_t *samples, uint32_t count);

#endif
