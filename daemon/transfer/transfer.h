// The transfer process, one per GPU in use. It copies batches from the rings of feeds into pools on the GPU.
//
//   transfer.c      start, when to copy and when to sleep
//   pools.c         what the supervisor asks about pools
//   device_ring.c   one pool: opening and closing it, its consumers
//   copies.c        a pool's claims: waiting for room, being copied, done
//   registration.c  pins a ring
#ifndef FEEDD_DAEMON_TRANSFER_TRANSFER_H
#define FEEDD_DAEMON_TRANSFER_TRANSFER_H

// Runs the role; returns the process's exit status.
int transfer_run(void);

#endif
