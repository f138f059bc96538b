// How much more memory rings may have, and the sentence for one that does not fit.
#ifndef FEEDD_SHM_RING_ROOM_H
#define FEEDD_SHM_RING_ROOM_H

#include <stdint.h>

#include "base/error.h"

#define SHM_FOLDER "/dev/shm"

// The bytes that rings may still have: the least of those free in /dev/shm and of those that the memory limits of this
// process's control groups leave. UINT64_MAX if there are no limits.
uint64_t ring_free_bytes(void);

// Fills `error` with `code` and a sentence: a ring of that size does not fit into /dev/shm, which has that much free.
int ring_no_room(uint64_t bytes, int code, struct error *error);

#endif
