// What views name in npy files with one dimension: sample numbers, or weights.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_VECTOR_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_VECTOR_H

#include "daemon/source/build/arrays.h"

#define VECTOR_AT_ONCE 4096u // numbers

struct vector {
    const char *what; // for messages: "sample numbers"
    struct source_file file;
    struct array_header header;
};

#define AUTO_VECTOR CLEANUP(vector_release)
void vector_release(struct vector *vector);

// Opens the one file that the path names and reads its header, which nobody has checked yet. `what` is set.
int builder_vector_open(struct builder *builder, const char *path, struct vector *vector);

// Reads `count` numbers (at most VECTOR_AT_ONCE) from index `place` on; bits that a number does not have are 0.
int builder_vector_read(struct builder *builder, const struct vector *vector, uint64_t place, uint32_t count,
                        uint64_t *words);

#endif
