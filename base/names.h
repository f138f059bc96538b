// Names of datasets, shares, fields and clients: what they may consist of.
#ifndef FEEDD_BASE_NAMES_H
#define FEEDD_BASE_NAMES_H

#include <stdbool.h>

#define NAME_LENGTH_MAX 63u // PROTO_MAX_NAME and STATS_NAME have room for it

// 0 to NAME_LENGTH_MAX letters, digits, '.', '_' and '-'.
bool name_is_valid(const char *text);

#endif
