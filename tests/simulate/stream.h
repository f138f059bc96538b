// Streams of simulated GPUs on the virtual clock, in place of gpu/gpu_host_stream.c: what is queued happens piece by
// piece, and what a process that was killed had queued may stop anywhere.
#ifndef FEEDD_TESTS_SIMULATE_STREAM_H
#define FEEDD_TESTS_SIMULATE_STREAM_H

#include <stdbool.h>

#include "gpu/gpu_host_stream.h"

// All of its work is done.
bool stream_is_idle(const struct host_stream *stream);

#endif
