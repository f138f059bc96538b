// Moderates how often the supervisor wakes. Where loaders are what consumers wait for, each batch would wake the
// supervisor twice and the consumer once, and on busy cores a loader would be interrupted every time: a sixth of a
// machine of two cores. So the loop takes naps there, and several batches go by in one waking.
//
// No batch waits for a nap that could be had sooner: one is taken only while every batch that is complete has been
// granted and loaders have enough to do meanwhile, in every feed that has consumers; other messages wait, half a
// millisecond at the most. It is no longer than it takes to fill half of what consumers may
// hold. And only where processors are few and all of them busy: on 16, naps brought nothing (bench/README.md).
#ifndef FEEDD_DAEMON_SUPERVISOR_MODERATION_H
#define FEEDD_DAEMON_SUPERVISOR_MODERATION_H

#include <uv.h>

#include "daemon/supervisor/delivery/delivery.h"

// How fast a feed's batches are completed.
struct pace {
    uint64_t since_ns;    // of the measurement under way
    uint64_t batches;     // delivery.completed then
    uint64_t interval_ns; // from one batch to the next, lately; 0: not known
};

// After a look at the feed. `completed` as in struct delivery.
void pace_note(struct pace *pace, uint64_t completed, uint64_t now_ns);

#define NAP_ANY UINT64_MAX // this feed does not mind

// The longest nap that costs the feed nothing, 0 for none.
uint64_t pace_nap_ns(const struct pace *pace, const struct delivery *delivery);

struct moderation {
    uv_prepare_t before_poll;
    uv_check_t after_poll;
    uint64_t woke_ns;
    uint32_t processors; // that feedd may run on
};

struct supervisor;
// The longest nap that it may take now, all feeds considered; 0 for none.
uint64_t moderation_nap_ns(const struct supervisor *supervisor);

// Its handles are closed with the supervisor's others.
void moderation_start(struct supervisor *supervisor);

#endif
