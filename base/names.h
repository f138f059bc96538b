// Names of datasets, shares, fields and clients: what they may consist of.
#ifndef FEEDD_BASE_NAMES_H
#define FEEDD_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_LENGTH_MAX 63u // PROTO_MAX_NAME and STATS_NAME have room for it

// 0 to NAME_LENGTH_MAX letters, digits, '.', '_' and '-'.
bool name_is_valid(const char *text);

// How many letters must be inserted, removed or changed to get from one name to the other; case does not count.
uint32_t name_distance(const char *left, const char *right);

// For "perhaps you mean": of `have`, the name with the least distance to `wanted`, if that is 2 at most, else the only
// one that begins with `wanted`. NULL if none is near. Names may be NULL.
const char *name_nearest(const char *wanted, const char *const *have, size_t count);

#endif
