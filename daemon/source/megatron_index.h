// Reads the .idx file of a Megatron pair.
#ifndef FEEDD_DAEMON_SOURCE_MEGATRON_INDEX_H
#define FEEDD_DAEMON_SOURCE_MEGATRON_INDEX_H

#include "daemon/source/builder_files.h"

struct megatron_index {
    uint32_t dtype;
    uint64_t tokens;
    uint64_t documents;
    uint64_t *starts; // documents + 1 of them, in tokens; the last is `tokens`
};

// Refuses anything but documents that follow each other without gaps. The index must be released, also on failure.
int megatron_index_read(struct builder *builder, const char *path, struct megatron_index *index);
void megatron_index_release(struct megatron_index *index);

#endif
