// How many bytes a sample has in a ragged field, by the index alone.
#ifndef FEEDD_DAEMON_DATASET_COLUMN_SIZE_H
#define FEEDD_DAEMON_DATASET_COLUMN_SIZE_H

#include "daemon/dataset/dataset.h"

// `sample` is one of those stored, and `index` the dataset's.
static inline uint64_t column_sample_bytes(const struct dataset_column *column, const uint8_t *index,
                                           uint64_t sample) {
    return ((const struct index_extent *)(const void *)(index + column->offset) + sample)->bytes;
}

// Begins to load what column_sample_bytes will need.
static inline void column_prefetch(const struct dataset_column *column, const uint8_t *index,
                                   uint64_t sample) {
    __builtin_prefetch((const struct index_extent *)(const void *)(index + column->offset) + sample);
}

#endif
