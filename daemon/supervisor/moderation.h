// Moderates how often the supervisor wakes. Where loaders are what consumers wait for, each batch would wake the
// supervisor twice and the consumer once, and on busy cores a loader would be interrupted every time: a sixth of a
// machine of two cores. So the loop takes naps there, and several batches go by in one waking.
//
// No batch waits for a nap that could be had sooner: one is taken only while every batch that is complete has been
// granted and loaders have enough to do meanwhile, in every feed that has consumers; other messages wait, half a
// millisecond at most. It is no longer than it takes to fill half of what consumers may hold. And only where processors
// are few and all of them busy: on 16, naps brought nothing (bench/README.md).
#ifndef FEEDD_DAEMON_SUPERVISOR_MODERATION_H
#define FEEDD_DAEMON_SUPERVISOR_MODERATION_H

#include "daemon/supervisor/supervisor.h"

// Finds out on how many processors feedd may run.
void moderation_start(struct supervisor *supervisor);

// The longest nap that it may take now, all feeds considered; 0 for none.
uint64_t moderation_nap_ns(const struct supervisor *supervisor);

// Takes it, before the loop waits for events. moderation_woke is called after that wait.
void moderation_nap(const struct supervisor *supervisor);
void moderation_woke(struct supervisor *supervisor);

#endif
