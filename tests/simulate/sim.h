// The core of the simulation: one process, one thread, no real time. Actors have a time at which they act next; the
// scheduler lets the earliest one act and moves the clock there. Everything random comes from the seed, so a seed
// always does the same.
#ifndef FEEDD_TESTS_SIMULATE_SIM_H
#define FEEDD_TESTS_SIMULATE_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/queue.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"

#define NEVER UINT64_MAX

struct actor {
    TAILQ_ENTRY(actor) link;
    uint64_t due_ns; // NEVER: it waits for others
    uint32_t number; // of this seed's actors, in the order of their creation
    const char *name;
    void (*act)(struct actor *actor);
};

extern struct sim {
    uint64_t seed;
    uint64_t now_ns;
    uint64_t random[4];
    uint64_t hash; // of all that has happened
    uint64_t steps;
    uint32_t actors_made;
    bool calm;  // no more faults: from now on everybody must make progress
    bool trace; // tell what happens
    TAILQ_HEAD(, actor) actors;
} sim;

void sim_begin(uint64_t seed);

// Lets actors act until `over` says so. The property is violated if that takes more steps than any scenario should.
void sim_run(bool (*over)(void));

// ---- Actors ------------------------------------------------------------------------------------------------

void actor_add(struct actor *actor, const char *name, void (*act)(struct actor *actor), uint64_t delay_ns);
void actor_remove(struct actor *actor);

// It acts after `delay_ns`, unless it does so before anyway.
static inline void actor_wake(struct actor *actor, uint64_t delay_ns) {
    actor->due_ns = min_u64(actor->due_ns, sim.now_ns + delay_ns);
}

// ---- Chance ------------------------------------------------------------------------------------------------

uint64_t sim_random(void);

// 0..count-1, or 0.
static inline uint64_t sim_below(uint64_t count) {
    return count ? sim_random() % count : 0;
}
static inline uint64_t sim_between(uint64_t least, uint64_t most) {
    return least + sim_below(most - least + 1);
}
static inline bool sim_chance(uint32_t of_thousand) {
    return sim_below(1000) < of_thousand;
}
// A fault happens: never once the faults are over.
static inline bool sim_fault(uint32_t of_thousand) {
    return !sim.calm && of_thousand && sim_chance(of_thousand);
}

// One step of splitmix64: scatters a number.
uint64_t sim_scatter(uint64_t number);

// ---- What happened -----------------------------------------------------------------------------------------

// Becomes part of the hash.
static inline void sim_note(uint64_t what) {
    sim.hash = sim_scatter(sim.hash ^ what);
}

void sim_trace(const char *format, ...) PRINTF_LIKE(1, 2);

// A property is violated: names it, and ends the process.
_Noreturn void sim_violated(const char *format, ...) PRINTF_LIKE(1, 2);

#define SIM_MUST(condition)                                                                                  \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            sim_violated("%s:%d: does not hold: %s", __FILE__, __LINE__, #condition);                        \
    } while (0)

#endif
