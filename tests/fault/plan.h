// What make check-fault tells the injectors, and what they tell it: a file that the driver (plan.py), inject.c and
// failing_alloc.c map. plan.py knows the same offsets.
#ifndef FEEDD_TESTS_FAULT_PLAN_H
#define FEEDD_TESTS_FAULT_PLAN_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_VARIABLE "FEEDD_FAULT_PLAN" // the environment variable that names the file
#define PLAN_FRAMES   24u
#define PLAN_SITES    16384u
#define PLAN_BEGIN    500 // a system call that does not exist: the caller's program has been loaded

enum plan_role {
    ROLE_NONE, // of no interest: the bystander's loader
    ROLE_SUPERVISOR,
    ROLE_SPAWN,    // a child of the supervisor, between fork and exec
    ROLE_START,    // a loader or transfer process whose libraries are being loaded
    ROLE_PREPARED, // a loader that waits for a feed, until it has taken what it is sent
    ROLE_LOADER,
    ROLE_TRANSFER,
    ROLE_CONSUMER,
    ROLES
};

enum {
    PLAN_PHASES = 9, // 0: nothing is counted
    PLAN_CALLS = 513,
    CALL_ALLOCATE = 512 // malloc and its relatives; others are numbers of system calls
};

// Where the n-th allocation of a role in a phase was asked for.
struct plan_site {
    uint32_t role, phase, ordinal, unused;
    uint64_t address;
};

struct plan {
    // Written by the driver.
    _Atomic uint32_t phase;
    uint32_t role, at_phase, call, ordinal; // fail this one; ordinal 0: none
    int32_t error;
    uint32_t bystander; // the number of its feed
    // Written by the injectors.
    _Atomic uint32_t fired, fired_pid;
    _Atomic uint32_t unlisted; // a system call that calls.def does not have, plus 1
    _Atomic uint32_t in_main;  // the consumer has been loaded: from here on its calls count
    _Atomic uint32_t activity; // counts everything except waiting
    _Atomic uint32_t site_count;
    _Atomic uint32_t descriptors_before, descriptors_after; // of the consumer, at its begin and end
    uint32_t frame_count;
    uint64_t frames
        [PLAN_FRAMES]; // addresses in the program that probably are return addresses, from the inside out
    _Atomic uint32_t counts[ROLES][PLAN_PHASES][PLAN_CALLS];
    struct plan_site sites[PLAN_SITES];
};

_Static_assert(offsetof(struct plan, counts) == 256, "plan.py knows where everything is");

// Counts a call, and returns its number, or 0 if it does not count.
static inline uint32_t plan_count(struct plan *plan, uint32_t role, uint32_t phase, uint32_t call) {
    return role == ROLE_NONE || phase == 0 || phase >= PLAN_PHASES ? 0 : ++plan->counts[role][phase][call];
}

// Whether this call is the one that is to fail.
static inline int plan_fails(const struct plan *plan, uint32_t role, uint32_t phase, uint32_t call,
                             uint32_t ordinal) {
    return ordinal && plan->role == role && plan->at_phase == phase && plan->call == call &&
           plan->ordinal == ordinal;
}

#endif
