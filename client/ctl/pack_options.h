// The arguments of feedctl pack.
#ifndef FEEDD_CLIENT_CTL_PACK_OPTIONS_H
#define FEEDD_CLIENT_CTL_PACK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct pack_options {
    const char *dataset;
    const char *file;     // what the names of shards begin with
    uint64_t shard_bytes; // 0: as before, or the usual size
    uint64_t seed;
    bool force, json, quiet;
};

void pack_parse(int count, char **arguments, struct pack_options *options);

#endif
