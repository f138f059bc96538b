#include "tests/simulate/sim.h"

#include <inttypes.h>
#include <stdarg.h>

#define STEPS_MOST 400000u // far more than any scenario takes

struct sim sim;

uint64_t sim_scatter(uint64_t number) {
    number += 0x9e3779b97f4a7c15u;
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static uint64_t rotate(uint64_t word, uint32_t count) {
    return word << count | word >> (64 - count);
}

// xoshiro256**
uint64_t sim_random(void) {
    uint64_t *state = sim.random;
    uint64_t result = rotate(state[1] * 5, 7) * 9, shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate(state[3], 45);
    return result;
}

void sim_begin(uint64_t seed) {
    bool trace = sim.trace;
    sim = (struct sim){.seed = seed, .now_ns = 1000 * NS_PER_S, .trace = trace};
    for (uint32_t i = 0; i < COUNT_OF(sim.random); i++)
        sim.random[i] = sim_scatter(seed * COUNT_OF(sim.random) + i);
    TAILQ_INIT(&sim.actors);
}

void actor_add(struct actor *actor, const char *name, void (*act)(struct actor *actor), uint64_t delay_ns) {
    *actor = (struct actor){.due_ns = delay_ns == NEVER ? NEVER : sim.now_ns + delay_ns,
                            .number = ++sim.actors_made,
                            .name = name,
                            .act = act};
    TAILQ_INSERT_TAIL(&sim.actors, actor, link);
}

void actor_remove(struct actor *actor) {
    if (!actor->act)
        return;
    TAILQ_REMOVE(&sim.actors, actor, link);
    actor->act = NULL;
}

static struct actor *earliest(void) {
    struct actor *actor, *first = NULL;
    TAILQ_FOREACH(actor, &sim.actors, link)
        if (!first || actor->due_ns < first->due_ns)
            first = actor;
    return first;
}

void sim_run(bool (*over)(void)) {
    while (!over()) {
        struct actor *actor = earliest();
        if (!actor || actor->due_ns == NEVER)
            sim_violated("nobody has anything to do, and it is not over");
        if (++sim.steps > STEPS_MOST)
            sim_violated("it does not come to an end");
        sim.now_ns = max_u64(sim.now_ns, actor->due_ns);
        sim_note(sim.now_ns ^ (uint64_t)actor->number << 48);
        if (sim.steps > STEPS_MOST - 20)
            sim_trace("%s %u acts", actor->name, actor->number); // who does not come to an end
        actor->due_ns = NEVER;
        actor->act(actor);
    }
}

void sim_trace(const char *format, ...) {
    va_list arguments;
    if (!sim.trace)
        return;
    va_start(arguments, format);
    fprintf(stderr, "%13.6f  ", (double)(sim.now_ns - 1000 * NS_PER_S) / (double)NS_PER_MS);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

void sim_violated(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "SEED %" PRIu64 ", after %.3f s: ", sim.seed,
            (double)(sim.now_ns - 1000 * NS_PER_S) / (double)NS_PER_S);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    fflush(NULL);
    _exit(1);
}
