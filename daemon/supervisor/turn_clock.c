#include "daemon/supervisor/turn_clock.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/sizes.h"
#include "base/time.h"

static uint64_t idle_ns(const struct turn_clock *clock) {
    return uv_metrics_idle_time(clock->loop) - clock->idle_before_ns;
}

static void account(struct turn_clock *clock, uint64_t now) {
    if (!clock->woken) { // the wait was not part of anything
        clock->woken = true;
        clock->since_ns = min_u64(clock->since_ns + idle_ns(clock), now);
    }
    uint64_t ns = now - clock->since_ns;
    clock->since_ns = now;
    if (ns <= clock->worst.ns)
        return;
    clock->worst.ns = ns;
    clock->worst.part = clock->now;
}

int turn_clock_init(struct turn_clock *clock, uv_loop_t *loop) {
    *clock = (struct turn_clock){.loop = loop};
    int err = uv_loop_configure(loop, UV_METRICS_IDLE_TIME);
    turn_clock_begin(clock);
    return err;
}

void turn_clock_begin(struct turn_clock *clock) {
    clock->now = (struct turn_part){0};
    clock->began_ns = clock->since_ns = monotonic_ns();
    clock->idle_before_ns = uv_metrics_idle_time(clock->loop);
    clock->woken = false;
    clock->worst.ns = 0;
}

void turn_clock_end(struct turn_clock *clock) {
    uint64_t now = monotonic_ns(), away = now - clock->began_ns;
    uint64_t ns = away - min_u64(idle_ns(clock), away);
    account(clock, now);
    clock->turns++;
    clock->long_turns += ns > TURN_BOUND_NS;
    if (ns <= clock->longest_ns)
        return;
    clock->longest_ns = ns;
    clock->longest_ended_ns = now;
    clock->longest_part = clock->worst.part;
}

struct turn_part turn_clock_enter(struct turn_clock *clock, enum turn_work work, uint64_t number) {
    struct turn_part before = clock->now;
    account(clock, monotonic_ns());
    clock->now = (struct turn_part){work, number};
    return before;
}

void turn_clock_leave(struct turn_clock *clock, struct turn_part before) {
    account(clock, monotonic_ns());
    clock->now = before;
}

void turn_clock_describe(struct turn_part part, char *text, size_t bytes) {
    static const struct {
        const char *what;
        bool numbered;
    } works[TURN_WORKS] = {
        [TURN_OTHER] = {"a signal, the result of a thread, or libuv itself", false},
        [TURN_LISTENER] = {"new connections", false},
        [TURN_SESSION] = {"messages of session", true},
        [TURN_SEND] = {"output to session", true},
        [TURN_FEED] = {"feed", true},
        [TURN_NEW_PROCESS] = {"starting a process of feed", true},
        [TURN_FREE_FEED] = {"freeing feed", true},
        [TURN_DEVICE] = {"a GPU", false},
        [TURN_RELOAD] = {"the reload", false},
        [TURN_TICK] = {"the regular checks", false},
    };
    if (works[part.work].numbered)
        snprintf(text, bytes, "%s %" PRIu64, works[part.work].what, part.number);
    else
        snprintf(text, bytes, "%s", works[part.work].what);
}
