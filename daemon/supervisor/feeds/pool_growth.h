// More GPU memory for a slot of a pool with ragged fields when a batch needs more than most do. The slot then has
// memory of its own instead of its part of the pool's, or of smaller memory that it had. The transfer process allocates
// it, and libfeed maps it when the client is first granted a batch there.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_GROWTH_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_POOL_GROWTH_H

#include "base/error.h"
#include "daemon/supervisor/feeds/pool.h"

// Prepares pool->tap, which is open. Without ragged fields there is nothing to do, then or later.
int pool_growth_open(struct pool *pool, struct error *error);
// After the pool's delivery.
void pool_growth_close(struct pool *pool);

// A member enters or leaves, which pool->members says after that.
int pool_growth_enter(const struct pool *pool, struct member *member, struct error *error);
void pool_growth_leave(struct pool *pool, struct member *member);

// How many slots have memory of their own, and the requests that give it to a transfer process that opens the pool.
uint32_t pool_growth_count(const struct pool *pool);
void pool_growth_give(const struct pool *pool);

// The transfer process has answered, and *fd is taken if it is wanted; or it has died.
void pool_growth_answered(struct pool *pool, const struct transfer_report *report, int *fd);
void pool_growth_died(struct pool *pool);

// Acts on a growth that failed: the pool fails, unless memory may come. In the feed's turn.
void pool_growth_act(struct pool *pool);

// How many batches the member can be granted now, at most `most`. Before each that lies in memory of its slot's own,
// the client is told of that memory, if it has not been yet.
uint32_t pool_growth_tell(struct pool *pool, struct member *member, uint32_t most);

#endif
