// The shards of one `feedctl pack`, and its manifest, which says what they are made of: so that it can be continued
// after an interruption, and only with the same data.
#ifndef FEEDD_CLIENT_CTL_PACK_SET_H
#define FEEDD_CLIENT_CTL_PACK_SET_H

#include <jansson.h>

#include "client/ctl/pack_shard.h"

// What a set is made of. All but the dataset's name is compared when it is continued.
struct pack_identity {
    const char *dataset;
    uint64_t fingerprint, samples, seed, shard_bytes;
    uint32_t field_count;
    struct packed_field fields[PACKED_MAX_FIELDS];
};

struct pack_set {
    char *folder_path; // without links
    char name[PACK_NAME_BYTES - 32];
    int folder;
    int manifest; // locked as long as it is open; two runs never write the same shards
    bool begun;   // it has a manifest
    // What complete shards there are.
    uint64_t id;
    uint32_t shards;
    uint64_t position; // where the next one begins
    uint64_t samples, bytes;
    bool complete;
};

// `file` is what the names of shards begin with. Opens and locks.
int pack_set_open(struct pack_set *set, const char *file, struct error *error);
void pack_set_close(struct pack_set *set);

// Removes all shards and the manifest's contents.
int pack_set_clear(struct pack_set *set, struct error *error);

// Compares what is there with what is wanted, and finds out which shards are complete. A shard_bytes of 0 becomes that
// of the manifest, or the usual one.
int pack_set_find(struct pack_set *set, struct pack_identity *identity, struct error *error);

// Writes the manifest, unless it is there.
int pack_set_begin(struct pack_set *set, const struct pack_identity *identity, struct error *error);

// Takes a shard that has just been finished into account.
void pack_set_count(struct pack_set *set, const struct packed_header *header, uint64_t bytes);

#endif
