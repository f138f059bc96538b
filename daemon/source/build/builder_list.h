// The list of a view whose samples come from a file (indices).
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_LIST_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_LIST_H

#include "daemon/source/build/builder.h"

// 1 GiB of memory.
#define LIST_MAX_SAMPLES (1u << 27)

// Reads the view's file, whose numbers must be below `of`, into sealed memory, the dataset's list_fd, and describes the
// selection.
int builder_list(struct builder *builder, uint64_t of, struct selection *selection);

#endif
