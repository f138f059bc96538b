// Simulated loader processes: they claim chunks of the real rings with the real functions, and report them; the storage
// in between is simulated. Each can be killed between any two of its steps. Then reads that it had begun may still
// write to the ring for a while.
#ifndef FEEDD_TESTS_SIMULATE_LOADER_H
#define FEEDD_TESTS_SIMULATE_LOADER_H

#include "daemon/supervisor/processes/process.h"
#include "tests/simulate/mapping.h"
#include "tests/simulate/storage.h"

#define READS_MOST 4u

// Samples that cannot be read, and what comes in their places: one read after another.
struct replacing {
    uint32_t bad[CLAIM_MOST], count; // of the claim's
    uint32_t done;
    uint32_t attempt; // at bad[done]; 0: none yet
};

enum read_phase {
    READ_NONE,
    READ_SENT,    // nothing has arrived yet
    READ_HALF,    // half of the bytes have
    READ_PLACED,  // all of them; the chunk is to be reported
    READ_REPORTED // the supervisor is to be woken
};

struct read {
    enum read_phase phase;
    uint64_t due_ns;
    uint64_t half_ns;
    struct claimed claimed;
    uint32_t skipped;
    struct replacing replacing;
    uint64_t failed_sample;
    bool failed;
    bool hangs; // it is not over before loaders_release, or long after its process was killed
};

// What happened to reads of stored samples.
struct hangs {
    uint32_t stuck; // reads that did not come back, and loaders that stood still
    uint32_t left;  // loaders that were killed and did not end at once
};

struct loader {
    LIST_ENTRY(loader) link;
    struct actor actor;
    struct process *process; // NULL: nobody knows of it
    struct mapping *mapping;
    struct ring ring;
    struct stats_loader *record;
    uint32_t serial;
    int event_fd;
    int assignment_fd; // until it has a feed; then -1
    int far_fd;        // the supervisor's end, while that is open; else -1
    bool runs, asleep, moved;
    bool unreaped; // killed, and the kernel does not end it
    uint64_t stands_still_ns, orphan_until_ns;
    struct read reads[READS_MOST];
};

extern LIST_HEAD(loaders, loader) loaders;
extern struct hangs hangs[DATASETS];

// Samples that loaders have reported to this daemon as unreadable, but for those of views that clients bring.
extern uint64_t loaders_reported[BAD_FATES];

void loaders_begin(void);

// One of them was killed, and a read of it never ends.
bool loaders_hang(void);

// Nothing of any loader is left.
bool loaders_gone(void);

// Storage answers again: reads that hang come to their end.
void loaders_release(void);

// Each, in words.
void loaders_describe(void);

// Its actor's.
void loader_act(struct actor *actor);

// How many reads it has in flight, also after its end.
uint32_t loader_reads(const struct loader *loader);

// It ends; the kernel may still be finishing its reads.
void loader_end(struct loader *loader, int signal);
void loader_free(struct loader *loader);

#endif
