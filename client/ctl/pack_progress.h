// How far feedctl pack is: one line that is written over on a terminal, else a line now and then.
#ifndef FEEDD_CLIENT_CTL_PACK_PROGRESS_H
#define FEEDD_CLIENT_CTL_PACK_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct pack_progress {
    const char *dataset;
    uint64_t positions; // of an epoch
    uint64_t first;     // the position where this run began
    uint64_t started_ns, next_ns;
    bool quiet, terminal, shown;
};

void pack_progress_start(struct pack_progress *progress, uint64_t first);

// `bytes` are those of this run.
void pack_progress_show(struct pack_progress *progress, uint64_t position, uint64_t bytes);

// Makes room for other text.
void pack_progress_end(struct pack_progress *progress);

#endif
