// State machines as checked tables: each state with its name and the states that may follow it.
//
//   static const struct state session_states[] = {
//       [SESSION_NEW] = {"new", STATE(SESSION_GREETED) | STATE(SESSION_CLOSED)}, ...
//   };
//   static const struct state_table session_table = STATE_TABLE("session", session_states);
//   session->state = state_next(&session_table, session->state, SESSION_GREETED);
#ifndef FEEDD_BASE_STATES_H
#define FEEDD_BASE_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/sizes.h"

#define STATE(value) (1u << (value)) // at most 32 states

struct state {
    const char *name;
    uint32_t next; // bits: the states that may follow
};

struct state_table {
    const char *subject; // whose states they are, for the message of state_next
    const struct state *states;
    uint32_t count;
};

#define STATE_TABLE(subject, states)                                                                         \
    { subject, states, COUNT_OF(states) }

// Returns `to`. A transition that the table does not have is a bug: it is named on standard error, and the process
// aborts.
uint32_t state_next(const struct state_table *table, uint32_t from, uint32_t to) MUST_CHECK;

// "?" for a number that is not a state, as it may come from shared memory.
const char *state_name(const struct state_table *table, uint32_t state);

#endif
