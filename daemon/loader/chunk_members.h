// In which order the samples of a claim are planned; private to chunk.c and chunk_members.c.
#ifndef FEEDD_DAEMON_LOADER_CHUNK_MEMBERS_H
#define FEEDD_DAEMON_LOADER_CHUNK_MEMBERS_H

#include "daemon/loader/chunk.h"

// Writes plan->members: of a mix, the samples of one part after those of another. Within a part, samples are sorted if
// that is allowed and pays.
void chunk_arrange_members(struct chunk_plan *plan, uint32_t count, bool may_sort);

#endif
