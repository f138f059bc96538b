// Checks a kept index of windows across files, whose stretches must lie in the files: loaders take that for granted.
#ifndef FEEDD_DAEMON_SOURCE_TOKENS_SEQUENCE_KEPT_H
#define FEEDD_DAEMON_SOURCE_TOKENS_SEQUENCE_KEPT_H

#include "daemon/source/build/builder.h"

// Finds the columns in the dataset's index, whose fields have been added, and sets counts[i] to how many windows begin
// in file i. *fits becomes false if it is not an index of windows over those files.
int sequence_take_kept(struct builder *builder, const struct source_file *files, uint32_t file_count,
                       uint64_t *counts, bool *fits);

#endif
