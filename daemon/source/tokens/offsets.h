// Reads npy files of offsets: one more than there are documents, in values. Document i begins at offset i and ends at
// offset i + 1.
#ifndef FEEDD_DAEMON_SOURCE_TOKENS_OFFSETS_H
#define FEEDD_DAEMON_SOURCE_TOKENS_OFFSETS_H

#include "daemon/source/tokens/documents.h"

// For a data file of `values` values. *first: the first offset, which those of `documents` are counted from. What is in
// `documents` must be released, also on failure.
int offsets_read(struct builder *builder, const char *path, uint64_t values, struct documents *documents,
                 uint64_t *first);

#endif
