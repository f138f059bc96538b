// The sample numbers in the file of a view (indices).
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_LIST_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_LIST_H

#include "daemon/source/build/view_memory.h"

// 1 GiB of memory.
#define LIST_MAX_SAMPLES (1u << 27)

// Reads the view's file, whose numbers must be below `of`, into memory.
int builder_list(struct builder *builder, uint64_t of, struct view_memory *numbers, uint64_t *count);

#endif
