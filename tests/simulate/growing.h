// The memory of slots that grow: which parts of which rings have been allocated since they were made.
#ifndef FEEDD_TESTS_SIMULATE_GROWING_H
#define FEEDD_TESTS_SIMULATE_GROWING_H

#include <sys/types.h>

#include "shm/ring.h"

void growing_begin(void);

// The first `bytes` of the slot of the ring in this file may be written to.
void growing_check(ino_t file, const struct ring_header *header, uint32_t slot, uint64_t bytes);

#endif
