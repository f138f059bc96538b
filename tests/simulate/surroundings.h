// What else of the product and of the machine is replaced: threads that close descriptors, the log, the clock of turns,
// and memory.
#ifndef FEEDD_TESTS_SIMULATE_SURROUNDINGS_H
#define FEEDD_TESTS_SIMULATE_SURROUNDINGS_H

// Once per process.
void surroundings_prepare(void);

#endif
