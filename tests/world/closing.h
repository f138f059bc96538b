// Closing and the clock of turns where there are no threads and no time passes within a turn: descriptors are closed at
// once, and turns are not measured. Included once per program, which has these functions wrapped.
#ifndef FEEDD_TESTS_WORLD_CLOSING_H
#define FEEDD_TESTS_WORLD_CLOSING_H

#include <unistd.h>

#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/turn_clock.h"

void __wrap_closer_take(struct closer *closer, uid_t user, int *fds, uint32_t *count);
void __wrap_closer_take_memory(struct closer *closer, uid_t user, int *fds, uint32_t *count, uint64_t bytes);
struct turn_part __wrap_turn_clock_enter(struct turn_clock *clock, enum turn_work work, uint64_t number);
void __wrap_turn_clock_leave(struct turn_clock *clock, struct turn_part before);

void __wrap_closer_take(struct closer *closer, uid_t user, int *fds, uint32_t *count) {
    (void)closer;
    (void)user;
    while (*count)
        close(fds[--*count]);
}

void __wrap_closer_take_memory(struct closer *closer, uid_t user, int *fds, uint32_t *count, uint64_t bytes) {
    (void)bytes;
    __wrap_closer_take(closer, user, fds, count);
}

struct turn_part __wrap_turn_clock_enter(struct turn_clock *clock, enum turn_work work, uint64_t number) {
    (void)clock;
    return (struct turn_part){work, number};
}

void __wrap_turn_clock_leave(struct turn_clock *clock, struct turn_part before) {
    (void)clock;
    (void)before;
}

#endif
