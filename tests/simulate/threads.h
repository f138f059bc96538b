// What the supervisor runs in threads: it takes a while, and then the loop hears of it.
#ifndef FEEDD_TESTS_SIMULATE_THREADS_H
#define FEEDD_TESTS_SIMULATE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

void threads_begin(void);
bool threads_idle(void);

// The process that they belong to has ended.
void threads_die(void);

#endif
