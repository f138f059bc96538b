// How fast a feed's batches are completed, and how long the supervisor may nap without a consumer noticing. Pure.
#ifndef FEEDD_DAEMON_SUPERVISOR_DELIVERY_PACE_H
#define FEEDD_DAEMON_SUPERVISOR_DELIVERY_PACE_H

#include "daemon/supervisor/delivery/delivery.h"

#define PACE_NAP_MOST_NS UINT64_C(500000)
#define NAP_ANY          UINT64_MAX // this feed does not mind

struct pace {
    uint64_t since_ns;    // of the measurement under way
    uint64_t batches;     // delivery.completed then
    uint64_t interval_ns; // from one batch to the next, lately; 0: not known
};

// After a look at the feed. `completed` as in struct delivery.
void pace_note(struct pace *pace, uint64_t completed, uint64_t now_ns);

// The longest nap that costs the feed nothing, 0 for none.
uint64_t pace_nap_ns(const struct pace *pace, const struct delivery *delivery);

#endif
