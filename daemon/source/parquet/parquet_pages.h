// The pages of a column in one row group, one after another.
#ifndef FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_PAGES_H
#define FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_PAGES_H

#include "block/block_decode.h"
#include "daemon/source/parquet/parquet_file.h"

struct parquet_buffer {
    uint8_t *bytes;
    size_t room;
};

// One thread at a time.
struct parquet_pages {
    const struct parquet_file *file;
    // Of the column.
    struct parquet_levels levels;
    uint32_t codec;      // enum block_codec of its pages
    uint64_t next, end;  // of what was not read, in the file
    uint64_t largest;    // of its data pages, decoded
    uint64_t dictionary; // bytes of its dictionary page, decoded
    // Of the page that came last.
    struct parquet_page page;
    uint64_t header;      // where it begins in the file
    uint64_t stored_at;   // where its body does
    const uint8_t *bytes; // the body, decoded
    struct parquet_body body;
    // Private.
    struct block_decoder decoder;
    struct parquet_buffer stored, decoded;
};

int parquet_pages_open(struct parquet_pages *pages, const struct parquet_file *file, struct error *error);
void parquet_pages_close(struct parquet_pages *pages);

// Begins with a column chunk.
int parquet_pages_begin(struct parquet_pages *pages, const struct parquet_chunk *chunk,
                        const struct parquet_levels *levels, struct error *error);

// 1: the next page with values or a dictionary, valid until the next call; 0: there is none; or a negative errno and a
// sentence.
int parquet_pages_next(struct parquet_pages *pages, struct error *error);

// Where the part of the page's body that may be compressed is stored, and how it becomes its part of `bytes`.
void parquet_pages_block(const struct parquet_pages *pages, struct index_block *block);

// Takes the memory that `bytes` is in away from the pages, so that it outlasts them. To be freed.
uint8_t *parquet_pages_take(struct parquet_pages *pages);

bool parquet_buffer_grow(struct parquet_buffer *buffer, size_t bytes);

#endif
