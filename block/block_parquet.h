// Pages of a Parquet column whose values do not lie end to end in them: lists, and values that share prefixes.
#ifndef FEEDD_BLOCK_BLOCK_PARQUET_H
#define FEEDD_BLOCK_BLOCK_PARQUET_H

#include "block/block_decode.h"

// What the codec BLOCK_PARQUET has in a block's parameters.
enum block_parquet_parameter {
    BLOCK_PARQUET_CODEC,    // enum block_codec of each page
    BLOCK_PARQUET_PHYSICAL, // enum parquet_physical
    BLOCK_PARQUET_STORED,   // bytes of a value in the file; 0: a bit, or they differ
    BLOCK_PARQUET_BYTES,    // ... and as it is delivered; 0: they differ
    BLOCK_PARQUET_LEVELS,   // highest definition level, and highest repetition level in the upper half
};

// `stored` are whole pages: at most one with a dictionary, which comes first. Their values, without nulls, are laid end
// to end in `decoded`, which they must fill. `scratch` has room for the dictionary and any other page, as decoded.
int block_parquet_decode(struct block_decoder *decoder, const struct index_block *block,
                         const uint8_t *stored, uint8_t *decoded, uint8_t *scratch, struct error *error);

#endif
