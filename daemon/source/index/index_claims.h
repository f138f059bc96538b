// Which indices this process is building. A reload, a check and a start may want the same one at the same time: the
// first builds it, and the others wait, since they may then find it kept.
#ifndef FEEDD_DAEMON_SOURCE_INDEX_INDEX_CLAIMS_H
#define FEEDD_DAEMON_SOURCE_INDEX_INDEX_CLAIMS_H

#include <stdbool.h>
#include <sys/queue.h>

#include "daemon/source/index/index_key.h"

// The caller's memory, until index_claim_end.
struct index_claim {
    LIST_ENTRY(index_claim) link;
    struct index_key key;
};

// Waits while another thread has claimed the same key, and claims it. Returns whether it had to wait.
bool index_claim_begin(struct index_claim *claim, struct index_key key);
void index_claim_end(struct index_claim *claim);

#endif
