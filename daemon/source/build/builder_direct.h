// Switches the files of a dataset to O_DIRECT once headers and fingerprint have been read, and learns what alignment
// that requires.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_DIRECT_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_DIRECT_H

#include "daemon/source/build/builder.h"

int builder_make_direct(struct builder *builder);

// Reads from a file that was made direct. `direct` is its entry in the layout.
int builder_read_direct(struct builder *builder, const struct source_file *file,
                        const struct dataset_file *direct, void *buffer, size_t bytes, uint64_t offset);

#endif
