// The groups of a dataset, of which shuffle_window says how many are shuffled together: what is read at once, or lies
// close together. They divide its samples into runs.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_GROUPS_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_GROUPS_H

#include "daemon/source/build/builder.h"

// Another group, which begins at that sample; the first one begins at 0, and they rise. A format may call this for
// all of them. If it does not, and a column lies in blocks that loaders decode, a group is a row group or record
// batch; otherwise it is a file (of several fields with files of their own: a file of the first one).
int builder_add_group(struct builder *builder, uint64_t first_sample);

// With shuffle_window: puts the groups into sealed memory, the dataset's list_fd, and describes them in its layout.
// Views whose samples lie anywhere have none. To be called when the samples have been selected.
int builder_groups(struct builder *builder);

#endif
