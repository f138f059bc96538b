// What a seed has taken it gives back: descriptors, mappings and memory, of the daemon as of everybody else.
#ifndef FEEDD_TESTS_SIMULATE_LEAKS_H
#define FEEDD_TESTS_SIMULATE_LEAKS_H

// A seed begins.
void leaks_begin(void);

// It is over, and nothing is left of it.
void leaks_check(void);

#endif
