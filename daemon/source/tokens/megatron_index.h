// Reads the .idx file of a Megatron pair.
#ifndef FEEDD_DAEMON_SOURCE_TOKENS_MEGATRON_INDEX_H
#define FEEDD_DAEMON_SOURCE_TOKENS_MEGATRON_INDEX_H

#include "daemon/source/tokens/documents.h"

// Refuses anything but documents that follow each other without gaps. What is in `documents` must be released, also on
// failure.
int megatron_index_read(struct builder *builder, const char *path, struct documents *documents,
                        uint32_t *dtype);

#endif
