#include "tests/simulate/chaos.h"

#include "tests/simulate/children.h"
#include "tests/simulate/client.h"
#include "tests/simulate/daemon.h"
#include "tests/simulate/loader.h"
#include "tests/simulate/plan.h"
#include "tests/simulate/transfer.h"

static struct actor chaos;
static uint32_t left;

static enum chaos_kind choose(void) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < CHAOS_KINDS; i++)
        sum += plan.weights[i];
    uint64_t point = sim_below(sum + 1);
    for (uint32_t i = 0; i < CHAOS_KINDS; i++) {
        if (point < plan.weights[i])
            return (enum chaos_kind)i;
        point -= plan.weights[i];
    }
    return CHAOS_KILL_LOADER;
}

// Mostly short.
static uint64_t a_while(void) {
    return sim_below(sim_chance(300) ? 6 * NS_PER_S : 100 * NS_PER_MS);
}

static void happen(enum chaos_kind kind) {
    uint64_t for_ns = a_while();
    sim_trace("chaos: %d", (int)kind);
    switch (kind) {
    case CHAOS_KILL_LOADER:
        children_kill_one();
        return;
    case CHAOS_STOP_LOADER:
        children_stop_one(for_ns);
        return;
    case CHAOS_KILL_CLIENT:
        clients_kill_one();
        return;
    case CHAOS_STOP_CLIENT:
        clients_stop_one(for_ns);
        return;
    case CHAOS_KILL_DAEMON:
        daemon_die(for_ns);
        return;
    case CHAOS_END_DAEMON:
        daemon_stop();
        return;
    case CHAOS_DRAIN:
        daemon_drain();
        return;
    case CHAOS_STOP_DAEMON:
        daemon_.stands_still_ns = sim.now_ns + for_ns;
        return;
    case CHAOS_RELOAD:
        if (daemon_.up)
            daemon_.supervisor.reload_wanted = true;
        daemon_wake(0);
        return;
    case CHAOS_RETURN_LATE:
        clients_stop_one(plan.max_lag_s * sim_between(300, 1000) * NS_PER_MS);
        daemon_die(sim_below(500 * NS_PER_MS));
        return;
    case CHAOS_KILL_TRANSFER:
        transfers_kill_one();
        return;
    case CHAOS_STOP_TRANSFER:
        transfers_stop_one(for_ns);
        return;
    case CHAOS_COUNT_LOADERS:
        daemon_count_loaders();
        return;
    default:
        sim.now_ns += for_ns;
    }
}

static void act(struct actor *actor) {
    if (!left) {
        sim_trace("calm");
        sim.calm = true;
        return;
    }
    left--;
    happen(choose());
    actor_wake(actor, sim_below(2 * plan.gap_us * NS_PER_US + 1));
}

void chaos_begin(void) {
    left = plan.faults;
    actor_add(&chaos, "chaos", act, sim_below(2 * plan.gap_us * NS_PER_US + 1));
}
