// libuv's threads, in which the memory of rings is allocated.
#ifndef FEEDD_DAEMON_SUPERVISOR_THREAD_POOL_H
#define FEEDD_DAEMON_SUPERVISOR_THREAD_POOL_H

#include <uv.h>

#include "base/error.h"

// Starts them now, not when the first client attaches and the limit on tasks may have been reached. They block the
// signals that the caller blocks.
int thread_pool_start(uv_loop_t *loop, struct error *error);

#endif
