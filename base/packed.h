// Shards of packed datasets: feedctl pack writes them, and format packed reads them. docs/packed.md describes them for
// people.
//
// A shard is a header of one page, the samples one after another, and a table. The bytes of a sample are together: its
// fields in order, and then zeros up to the alignment. If all fields are fixed, every sample has the same size, and the
// table is empty. If any is ragged, the table has the sizes of the ragged fields, from which all places follow, and the
// values of small fixed fields, which are not in the samples then.
#ifndef FEEDD_BASE_PACKED_H
#define FEEDD_BASE_PACKED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define PACKED_MAGIC         0x4b43415044454546u // "FEEDPACK"
#define PACKED_VERSION       1u
#define PACKED_PAGE          4096u // the header; samples begin behind it
#define PACKED_MAX_FIELDS    16u
#define PACKED_MAX_DIMS      8u
#define PACKED_FIELD_NAME    32u
#define PACKED_VALUE_BYTES   16u // fixed fields up to this size are small
#define PACKED_SAMPLE_BYTES  (1024ull << 20)
#define PACKED_SAMPLES       (128u << 20) // with a table; a set has no more, either
#define PACKED_MAX_ALIGNMENT PACKED_PAGE

struct packed_field {
    char name[PACKED_FIELD_NAME]; // filled up with zeros
    uint32_t dtype;
    uint32_t dimensions; // of a sample; 1 if ragged
    uint32_t ragged;     // 1: a sample has any number of values, and shape[0] is 0
    uint32_t reserved;
    uint64_t shape[PACKED_MAX_DIMS];
};

// Numbers are little-endian, what is reserved is 0.
struct packed_header {
    uint64_t magic;
    uint32_t version;
    uint32_t field_count;
    uint64_t set;    // the same in all shards that were made together
    uint32_t number; // of the shard, from 0
    uint32_t last;   // 1: no other follows
    // In the epoch of the dataset that was packed. There are fewer samples if some were skipped.
    uint64_t first_position, end_position;
    uint64_t samples;      // at least 1
    uint64_t table_offset; // in the file; the samples lie between the header and the table
    uint64_t table_bytes;  // to the end of the file
    uint64_t table_hash;   // XXH3-64
    uint32_t alignment;    // of samples: a power of two
    uint32_t reserved;
    struct packed_field fields[PACKED_MAX_FIELDS];
    uint8_t reserved2[2208];
    uint64_t header_hash; // XXH3-64 of what is before it
};

// Where a field's bytes are.
enum packed_place {
    PACKED_IN_SAMPLE,
    PACKED_SIZED,    // in the sample, and the table says how many
    PACKED_IN_TABLE, // the value itself
};

bool packed_is_ragged(const struct packed_header *header);
enum packed_place packed_place(const struct packed_header *header, uint32_t field);

// Of a fixed field in one sample; 0 if that is more than PACKED_SAMPLE_BYTES, or nothing.
uint64_t packed_field_bytes(const struct packed_field *field);

// Of the fixed fields in one sample that are not in the table.
uint64_t packed_fixed_bytes(const struct packed_header *header);

// The table is made of columns, one after another: for each sized field u32[samples], and for each one in the table its
// values. Each is filled up with zeros to a multiple of 8. This is how many bytes a sample has in a field's column.
uint64_t packed_entry_bytes(const struct packed_header *header, uint32_t field);

// Where a field's column begins in the table; of field `field_count`, where the table ends.
uint64_t packed_column(const struct packed_header *header, uint32_t field);

uint64_t packed_hash(const struct packed_header *header);

// Whether the header of a file of so many bytes can be believed. 0, or -EINVAL with a sentence. The samples of a shard
// with a table may still be larger than what is there for them.
int packed_check(const struct packed_header *header, uint64_t file_bytes, struct error *error);

#endif
