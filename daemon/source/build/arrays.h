// What idx and npy share: a field is one array, or several of them end to end, and the first dimension counts samples.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_ARRAYS_H
#define FEEDD_DAEMON_SOURCE_BUILD_ARRAYS_H

#include "daemon/source/build/builder_files.h"

struct array_header {
    uint32_t dtype;
    uint32_t dimensions;               // at least 1
    uint64_t shape[1 + RING_MAX_DIMS]; // samples first
    uint64_t data_offset;
};

typedef int array_read_header(struct builder *builder, const struct source_file *file,
                              struct array_header *header);

// Adds every configured field: one stream each, and all files that its value names.
int arrays_open(struct builder *builder, array_read_header *read_header);

// Headers lie: refuses a file without samples, or with a byte more or less than its header says.
int arrays_check_size(struct builder *builder, const struct source_file *file,
                      const struct array_header *header);

// Refuses an array with no dimensions or too many.
int arrays_check_dimensions(struct builder *builder, const struct source_file *file, uint64_t dimensions);

#endif
