// Snappy, by its description of the format: the library is in C++, whose runtime loaders do without.
#ifndef FEEDD_BLOCK_BLOCK_SNAPPY_H
#define FEEDD_BLOCK_BLOCK_SNAPPY_H

#include "base/error.h"

// What becomes exactly `decoded_bytes`. -EBADMSG with a sentence.
int block_snappy_decode(const uint8_t *stored, uint64_t stored_bytes, uint8_t *decoded,
                        uint64_t decoded_bytes, struct error *error);

#endif
