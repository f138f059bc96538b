// The shards of a packed dataset, checked, with their tables.
#ifndef FEEDD_DAEMON_SOURCE_PACKED_SHARDS_H
#define FEEDD_DAEMON_SOURCE_PACKED_SHARDS_H

#include "base/packed.h"
#include "daemon/source/build/builder_files.h"

struct packed_shard {
    struct source_file file; // until it is added to the dataset
    uint64_t samples;
    uint64_t table_offset;
    uint32_t alignment;
    uint8_t *table; // NULL: it has none
};

struct packed_shards {
    struct packed_header first; // of the first shard: all have these fields
    struct packed_shard *shards;
    uint32_t count;
    uint64_t samples; // of all
    uint64_t bytes;   // of samples, of all
};

// To be released, also on failure.
int packed_shards_open(struct builder *builder, const struct path_list *list, struct packed_shards *shards);
void packed_shards_release(struct packed_shards *shards);

// A walk over the samples of a shard with a table.
struct packed_walk {
    const struct packed_header *fields;
    const uint8_t *columns[PACKED_MAX_FIELDS]; // of the table; NULL: the field has none
    uint64_t fixed[PACKED_MAX_FIELDS];         // bytes of the field in each sample; of sized ones, 0
    uint64_t next, end, alignment;             // offsets in the file
    uint64_t sample;
    // Of the sample that packed_walk_next has come to: where a field that is in it begins, and how many bytes it has.
    uint64_t offset[PACKED_MAX_FIELDS];
    uint64_t bytes[PACKED_MAX_FIELDS];
};

void packed_walk_start(struct packed_walk *walk, const struct packed_header *fields,
                       const struct packed_shard *shard);

// False if the sample does not lie where samples are.
bool packed_walk_next(struct packed_walk *walk);

#endif
