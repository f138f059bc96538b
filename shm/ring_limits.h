// What ring_make.c keeps and ring.c checks.
#ifndef FEEDD_SHM_RING_LIMITS_H
#define FEEDD_SHM_RING_LIMITS_H

#define MAX_RING (1ull << 46) // bytes

#endif
