// Moderates how often the supervisor wakes. Where consumers wait for loaders, each batch would wake the supervisor
// twice and the consumer once, and on busy cores that would interrupt a loader every time: a sixth of a machine with
// two cores. So the loop takes naps, and handles several batches each time that it wakes.
//
// A nap delays no batch: the loop takes one only while, in every feed that has consumers, every complete batch has
// been granted and the loaders have enough to do. Other messages wait for half a millisecond at most. A nap is no
// longer than it takes to fill half of what consumers may hold. It is taken only where there are few processors and
// all of them are busy: on 16, naps gained nothing (bench/README.md).
#ifndef FEEDD_DAEMON_SUPERVISOR_MODERATION_H
#define FEEDD_DAEMON_SUPERVISOR_MODERATION_H

#include "daemon/supervisor/supervisor.h"

// Determines on how many processors feedd may run.
void moderation_start(struct supervisor *supervisor);

// The longest nap that all feeds allow now; 0 for none.
uint64_t moderation_nap_ns(const struct supervisor *supervisor);

// Takes that nap before the loop waits for events. Call moderation_woke after the wait.
void moderation_nap(const struct supervisor *supervisor);
void moderation_woke(struct supervisor *supervisor);

#endif
