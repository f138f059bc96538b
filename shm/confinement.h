// What keeps a process of the daemon to its task: one bit for each thing that it has given up. `feedctl status` shows
// their names, and feedctl(1) explains them.
#ifndef FEEDD_SHM_CONFINEMENT_H
#define FEEDD_SHM_CONFINEMENT_H

#include <stdint.h>

enum confinement_part {
    CONFINED_PRIVILEGES,   // no execution of a program grants any (PR_SET_NO_NEW_PRIVS)
    CONFINED_DUMPS,        // no core dump, no debugger
    CONFINED_CAPABILITIES, // none left
    CONFINED_LIMITS,       // no new descriptors, no larger files
    CONFINED_PATHS,        // nothing can be opened or made by its path
    CONFINED_WRITES, // nothing can be opened for writing or made, except for devices and temporary files
    CONFINED_TCP,
    CONFINED_SIGNALS, // none to processes but its own and its children
    CONFINED_CALLS,   // a filter of system calls
    CONFINED_URING,   // its io_uring only reads
    CONFINEMENT_PARTS
};

// Both sets in one word: what was wanted in the upper half, what was achieved in the lower.
static inline uint64_t confinement_word(uint32_t wanted, uint32_t achieved) {
    return (uint64_t)wanted << 32 | achieved;
}
static inline uint32_t confinement_wanted(uint64_t word) {
    return (uint32_t)(word >> 32);
}
static inline uint32_t confinement_achieved(uint64_t word) {
    return (uint32_t)word;
}

// "no_new_privs".
const char *confinement_name(enum confinement_part part);

#endif
