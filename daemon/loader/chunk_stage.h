// Runs the stages of a chunk whose reads are all done.
#ifndef FEEDD_DAEMON_LOADER_CHUNK_STAGE_H
#define FEEDD_DAEMON_LOADER_CHUNK_STAGE_H

#include "base/error.h"
#include "daemon/loader/chunk.h"

// A sample that a stage refused.
struct chunk_refusal {
    uint32_t sample; // of the chunk, from 0
    uint32_t file;
    uint64_t offset; // of the field's stored bytes
    const char *stage;
    const struct error *error;
};

typedef void chunk_refused(void *context, const struct chunk_refusal *refusal);

// Whether any field has a stage.
bool chunk_has_stages(const struct chunk_plan *plan);
// ... a slow one.
bool chunk_has_slow_stages(const struct chunk_plan *plan);

// Runs the stages over `count` samples of the chunk from `first`, counted from its first sample. Several calls may
// share a chunk, in order from the front to the end. Samples marked as failed are left out. A sample that is refused
// is marked, then passed to `refused`.
// False, only if the plan is patient and each call has one sample: a slow stage ran out of what others may give back.
// Nothing is marked, and the next call with this sample continues with that stage.
bool chunk_stage_run(struct chunk_plan *plan, uint32_t first, uint32_t count, chunk_refused *refused,
                     void *context);

#endif
