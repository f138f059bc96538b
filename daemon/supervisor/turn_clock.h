// How long the event loop is away from its descriptors, and because of what. A turn lasts from the end of one wait to
// the beginning of the next, including everything that libuv does in between. Code that may take long announces itself
// first, and the turn is attributed to whatever took most of it.
//
// Times are wall-clock times: a turn is also long if other processes had the processor meanwhile.
#ifndef FEEDD_DAEMON_SUPERVISOR_TURN_CLOCK_H
#define FEEDD_DAEMON_SUPERVISOR_TURN_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define TURN_BOUND_NS UINT64_C(20000000) // no turn should take longer

enum turn_work {
    TURN_OTHER, // libuv's own, signals, results of threads
    TURN_LISTENER,
    TURN_SESSION, // a session's messages; the number is the session's
    TURN_SEND,    // a session's output
    TURN_FEED,    // a feed's batches, members and loaders; the number is the feed's, as in the next two
    TURN_NEW_PROCESS,
    TURN_FREE_FEED,
    TURN_DEVICE,
    TURN_RELOAD,
    TURN_TICK,
    TURN_WORKS
};

struct turn_part {
    enum turn_work work;
    uint64_t number;
};

struct turn_clock {
    uv_loop_t *loop;
    // This turn.
    struct turn_part now;
    uint64_t since_ns;       // `now` began, or continues after a part within it
    uint64_t began_ns;       // with the wait
    uint64_t idle_before_ns; // how long the loop had waited by then
    bool woken;
    struct {
        struct turn_part part;
        uint64_t ns;
    } worst;
    // All turns.
    uint64_t longest_ns;
    uint64_t longest_ended_ns;
    struct turn_part longest_part;
    uint64_t turns;
    uint64_t long_turns; // took more than TURN_BOUND_NS
};

// Before anything else is done with the loop. A negative errno of libuv's.
int turn_clock_init(struct turn_clock *clock, uv_loop_t *loop);

// Right before the loop waits; the turn ends when it is about to wait again.
void turn_clock_begin(struct turn_clock *clock);
void turn_clock_end(struct turn_clock *clock);

// What the loop does from now on. Returns what it did before, for turn_clock_leave.
struct turn_part turn_clock_enter(struct turn_clock *clock, enum turn_work work, uint64_t number);
void turn_clock_leave(struct turn_clock *clock, struct turn_part before);

// "starting a process of feed 3"
void turn_clock_describe(struct turn_part part, char *text, size_t bytes);

#endif
