// The filler of a feed's ring: loader processes read each batch from storage, in chunks that they claim in the ring.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_FILL_LOADERS_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_FILL_LOADERS_H

#include "daemon/supervisor/delivery/filler.h"

// It keeps nothing, so one serves every feed.
extern const struct filler loaders_filler;

#endif
