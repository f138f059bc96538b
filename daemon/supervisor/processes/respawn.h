// When a process that has died may be replaced. Pure: it has no clock, the caller passes the time.
//
// A process that dies without having worked has failed to start. From the second such failure in a row on, each wait is
// twice as long as the one before, until the caller is told to give up. Processes that work and still die are replaced
// at once from a bucket that refills slowly, so that the owner continues and the machine is not taken up with starting
// processes.
#ifndef FEEDD_DAEMON_SUPERVISOR_PROCESSES_RESPAWN_H
#define FEEDD_DAEMON_SUPERVISOR_PROCESSES_RESPAWN_H

#include <stdbool.h>
#include <stdint.h>

struct respawn_policy {
    uint32_t failures_most;    // failures to start in a row at which to give up
    uint64_t start_ns;         // a process that has not worked failed to start if it lived for less than this
    uint64_t backoff_first_ns; // after the second failure in a row; doubles
    uint64_t backoff_most_ns;
    uint64_t short_life_ns;  // one that lived for less, whether or not it worked, ...
    uint64_t short_pause_ns; // ... is replaced only after this pause; 0: none
    uint32_t at_once;        // replacements that a full bucket holds; 0: there is no bucket, and no limit
    uint64_t refill_ns;      // until the bucket gains one; also the pause when it is empty
    uint64_t retry_ns;       // after the process could not even be spawned
    bool unspawned_counts;   // as a failure to start
};

struct respawn {
    const struct respawn_policy *policy;
    uint32_t failures;  // to start, in a row
    uint64_t failed_ns; // when the last of them was counted
    uint32_t bucket;
    uint64_t refilled_ns;
    uint64_t wait_until_ns;
};

void respawn_init(struct respawn *respawn, const struct respawn_policy *policy, uint64_t now);

// A process that was started at `started_ns` has died unexpectedly. `worked`: it got as far as its work, so that what
// ended it is not a problem with starting. Processes that were started together and fail to start count as one failure,
// since only the next attempt shows whether the problem lasts.
void respawn_died(struct respawn *respawn, uint64_t now, uint64_t started_ns, bool worked);

// A process could not be spawned.
void respawn_unspawned(struct respawn *respawn, uint64_t now);

// The process that runs now works: earlier failures no longer count.
void respawn_worked(struct respawn *respawn);

// No process may be started before this time.
static inline uint64_t respawn_wait_until(const struct respawn *respawn) {
    return respawn->wait_until_ns;
}

static inline bool respawn_may_start(const struct respawn *respawn, uint64_t now) {
    return now >= respawn->wait_until_ns;
}

static inline bool respawn_has_given_up(const struct respawn *respawn) {
    return respawn->failures >= respawn->policy->failures_most;
}

#endif
