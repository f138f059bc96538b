// Names the file that a call is for while the kernel may try a read at once, in the caller's thread, which waits then
// and cannot say for what.
#ifndef FEEDD_DAEMON_LOADER_READ_READ_NAMING_H
#define FEEDD_DAEMON_LOADER_READ_READ_NAMING_H

#include <stdatomic.h>
#include <stdint.h>

struct read_naming {
    _Atomic uint32_t *where; // its owner's, written by this thread alone, relaxed; NULL: nowhere
    uint32_t prepared;       // index, plus 1, of the first read prepared since the last call; 0: none
};

static inline void read_naming_prepare(struct read_naming *naming, uint32_t file) {
    if (!naming->prepared)
        naming->prepared = file + 1;
}

// Before the call. Returns what was there, for read_naming_end.
static inline uint32_t read_naming_begin(const struct read_naming *naming) {
    uint32_t before = 0;
    if (naming->where && naming->prepared) {
        before = atomic_load_explicit(naming->where, memory_order_relaxed);
        atomic_store_explicit(naming->where, naming->prepared, memory_order_relaxed);
    }
    return before;
}

static inline void read_naming_end(struct read_naming *naming, uint32_t before) {
    if (naming->where && naming->prepared)
        atomic_store_explicit(naming->where, before, memory_order_relaxed);
    naming->prepared = 0;
}

#endif
