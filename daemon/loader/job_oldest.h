// The oldest read of a loader that has not come back: what it waits for, if storage hangs.
#ifndef FEEDD_DAEMON_LOADER_JOB_OLDEST_H
#define FEEDD_DAEMON_LOADER_JOB_OLDEST_H

#include "daemon/loader/job_board.h"

struct oldest_read {
    bool any;
    uint32_t file;
    uint64_t since_ns; // when a read of the same job last came back, or the job was claimed
    // How much later the latest job was claimed whose reads have all come back. Storage that is only slow serves reads
    // about in order, so this stays small, however long they take; if one read hangs, it grows with every job. A job
    // whose reads fail slowly, one by one, moves.
    uint64_t overtaken_ns;
};

struct oldest_read job_oldest_read(const struct job_board *board);

#endif
