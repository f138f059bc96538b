// A hash of all that an index depends on.
#ifndef FEEDD_DAEMON_SOURCE_INDEX_INDEX_KEY_H
#define FEEDD_DAEMON_SOURCE_INDEX_INDEX_KEY_H

#include <stdint.h>

struct index_key {
    uint64_t low, high;
};

#endif
