// The memory in which the loaders of a feed share the blocks that they have decoded (shm/block_share.h). It takes no
// more than memory of their own would, block_memory each, and is not part of ring_memory: it is neither pinned nor
// allocated before it is used.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_SHARED_BLOCKS_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_SHARED_BLOCKS_H

#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/processes/loader_process.h"

// If the feed's dataset has blocks and the feed several loaders. If there is no such memory to be had, or the dataset
// has too many blocks, each loader decodes for itself. After a lack, only loaders that started before it ended do.
void shared_blocks_open(struct served_feed *feed);

// Gives the memory back, off the loop: no loader of the feed is left that has it mapped.
void shared_blocks_close(struct served_feed *feed);

// The arena of the next loader: one that no loader has, also none that was killed and has not ended. There may be none:
// then it is feed->share.arenas.
uint32_t shared_blocks_arena(const struct served_feed *feed);

// Fills in the feed's shared memory and the arena there for the next loader.
void shared_blocks_lend(struct served_feed *feed, struct loader_start *start);

#endif
