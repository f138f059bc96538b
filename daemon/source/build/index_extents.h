// Whether what an index says of files can be true: an index that was kept may lie.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_INDEX_EXTENTS_H
#define FEEDD_DAEMON_SOURCE_BUILD_INDEX_EXTENTS_H

#include "daemon/source/build/builder.h"

// *fit: the samples of each file lie in it, or in blocks that do. files[i] has counts[i] samples. Adds up the blocks in
// the dataset's layout.
int index_extents_check(struct builder *builder, const struct source_file *files, const uint64_t *counts,
                        uint32_t file_count, bool *fit);

#endif
