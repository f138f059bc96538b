// Blocks: stored bytes that can only be decoded as a whole, such as a compressed buffer or a page. The samples of a
// column lie in what they become. An index has a table of them; loaders decode them, keep some, and copy samples out.
// feedctl decodes them too, to verify.
#ifndef FEEDD_BLOCK_BLOCK_H
#define FEEDD_BLOCK_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

// Kept on disk in indices, and sent to feedctl: append, and never change a number.
enum block_codec {
    BLOCK_PLAIN,     // not coded: samples are read in place, and no memory is needed
    BLOCK_LZ4_FRAME, // one frame of LZ4
    BLOCK_ZSTD,      // frames of Zstandard
    BLOCK_SNAPPY,    // without frames
    BLOCK_LZ4_RAW,   // LZ4 without a frame
    BLOCK_GZIP,      // a stream of gzip or zlib
    BLOCK_PARQUET,   // pages of a Parquet column, with parameters (block_parquet.h)
    BLOCK_CODECS,
};

#define BLOCK_RANGES     2u
#define BLOCK_PARAMETERS 5u
// Of an index: so that no sum over all of its blocks overflows.
#define BLOCK_MAX_COUNT (1ull << 24)
#define BLOCK_MAX_BYTES (1ull << 38)

struct block_range {
    uint64_t offset, bytes; // in the file
};

// Also the form on disk and in messages.
struct index_block {
    struct block_range
        stored[BLOCK_RANGES]; // read one after the other and decoded together; the second may be empty
    uint64_t decoded;         // bytes of what they become
    uint64_t scratch;         // bytes that decoding needs meanwhile
    uint32_t file;            // in the layout
    uint32_t codec;           // enum block_codec
    uint32_t parameters[BLOCK_PARAMETERS]; // whatever else its codec needs to know
    uint32_t first_row;                    // in the file, of the row group or record batch that it belongs to
};

static inline uint64_t block_stored_bytes(const struct index_block *block) {
    return block->stored[0].bytes + block->stored[1].bytes;
}

#define BLOCK_READ_BYTES (512u << 10) // of one read
#define BLOCK_READ_ROOM  128u         // of what describes it

// How many reads a block takes.
uint64_t block_reads(const struct index_block *block);

// What a loader holds until a block is decoded: descriptions of its reads, stored bytes and scratch memory, at these
// offsets. Everything begins at a multiple of a cache line.
struct block_work {
    uint64_t stored, scratch;
    uint64_t bytes;
};
struct block_work block_work(const struct index_block *block);

// What it becomes takes in memory.
uint64_t block_room(const struct index_block *block);

// Whether a block of a kept index can be read from a file of that size at all.
bool block_is_sound(const struct index_block *block, uint64_t file_bytes);

// "lz4", for people.
const char *block_codec_name(uint32_t codec);

#endif
