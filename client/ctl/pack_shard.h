// Writing one shard of a packed dataset after the other (base/packed.h). A shard is written under another name, and
// gets its own when it is complete and on the disk.
#ifndef FEEDD_CLIENT_CTL_PACK_SHARD_H
#define FEEDD_CLIENT_CTL_PACK_SHARD_H

#include "base/packed.h"

#define PACK_NAME_BYTES 256u

// One field of one sample.
struct pack_value {
    const void *data;
    uint64_t bytes;
};

struct pack_column {
    uint8_t *bytes;
    uint64_t used, room;
};

struct pack_shard {
    int folder;                  // where shards are; the caller's
    const char *name;            // what their names begin with; the caller's
    struct packed_header header; // fields, set and alignment are the caller's, the rest is of this shard
    int fd;                      // -1: no shard is being written
    uint64_t written;            // bytes in the file
    uint64_t flushed;            // those of them that the kernel has been asked to write to the disk
    uint64_t sample_end;         // where the last sample ends, as if all were in the file
    uint8_t *buffer;             // behind those
    uint64_t used;               // bytes in it
    struct pack_column columns[PACKED_MAX_FIELDS]; // of the table
};

// "NAME-00007.feed"
void pack_shard_name(const char *name, uint32_t number, char text[PACK_NAME_BYTES]);
// "NAME.part": the shard that is being written.
void pack_part_name(const char *name, char text[PACK_NAME_BYTES]);

int pack_shard_begin(struct pack_shard *shard, uint32_t number, uint64_t position, struct error *error);
int pack_shard_add(struct pack_shard *shard, const struct pack_value *values, struct error *error);

// How large the file would be if it ended now, and how much of that is its table.
uint64_t pack_shard_bytes(const struct pack_shard *shard);
uint64_t pack_shard_table_bytes(const struct pack_shard *shard);

int pack_shard_finish(struct pack_shard *shard, uint64_t end_position, bool last, struct error *error);

// Removes a shard that was not finished, and frees memory.
void pack_shard_close(struct pack_shard *shard);

#endif
