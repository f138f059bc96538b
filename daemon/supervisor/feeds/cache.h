// The size of the last-level cache that one core sees.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_CACHE_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_CACHE_H

#include <stdint.h>

// In bytes; 0 if the system does not say.
uint64_t cache_last_level_bytes(void);

#endif
