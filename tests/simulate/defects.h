// Defects put in on purpose, to show that a simulation finds them: `make simulate DEFECT=NAME`. Most are of functions
// that the linker replaces.
#ifndef FEEDD_TESTS_SIMULATE_DEFECTS_H
#define FEEDD_TESTS_SIMULATE_DEFECTS_H

#include <stdbool.h>

enum defect {
    DEFECT_NONE,
    DEFECT_LYING_STORAGE,  // reads sometimes bring the bytes of another sample
    DEFECT_LOST_CHUNKS,    // chunks of a loader that died are not read again
    DEFECT_EARLY_RECOVERY, // they are read again while its reads may still write
    DEFECT_ANY_RUN,        // a client takes the same batch of another run for its own
    DEFECT_LOST_WAKE_UP,   // loaders are not woken for chunks of one that died
    DEFECT_OLD_SKIPS,      // of such a chunk, samples stay skipped that can be read
    DEFECT_COMPANY,        // consumers that return do not wait for the others
    DEFECT_UNCONFIRMED,    // consumers count as gathered before they know that they have attached
    DEFECT_FORWARD_ONLY,   // a lane does not go back for a consumer that returns late
    DEFECT_NO_UNREAD,      // a copy does not wait for the streams that use what it overwrites
    DEFECT_EARLY_SOURCE,   // a slot is free again although a copy of it is being made
    DEFECT_RELEASED_TWICE, // a pool's slot that one consumer releases counts as released by another, too
    DEFECT_LOST_COPIES,    // copies of a transfer process that died are not made again
    DEFECT_SLEEPY_COPIES,  // a transfer process that sleeps is not woken for copies
    DEFECT_HUNG_REUSED,    // a slot is used again while a loader that hangs may write to it
    DEFECT_HUNG_KEPT,      // what a loader hangs at is not read elsewhere
    DEFECT_GROWTH_LOST,    // a slot counts as larger although there was no memory
    DEFECT_GROWTH_FREE,    // slots grow beyond the memory that all rings may have
    DEFECT_GROWTH_COPIES,  // slots of a pool do not grow for a batch that needs it
    DEFECT_GROWTH_FORGOT,  // the next transfer process is not given the memory of slots that have grown
    DEFECT_PLACES_OF_NEXT, // a batch has the places of the one after it
    DEFECT_OLD_PLACES,     // ... of the one that was in its slot before
    DEFECT_BAD_TWICE,      // samples that could not be read are counted again when their loader has ended
    DEFECT_LATER_ATTEMPT, // a loader in place of a dead one begins with the second attempt to replace a sample
    DEFECT_END_KEPT, // where samples are left out, the values of a batch end where they would end with them
    DEFECT_LOST_ATTEMPTS,    // slots have room for what replaces samples, but loaders are not told of it
    DEFECT_DRAWS_RESTART,    // a run that resumes draws as if it began there
    DEFECT_UNCUT_WINDOWS,    // the groups of a range are counted from the beginning of its dataset
    DEFECT_EPOCHS_ALIKE,     // two epochs in a row have the same windows
    DEFECT_SIZES_UNSHUFFLED, // slots have the places of another order than that of windows
    DEFECT_OTHER_VIEW,       // of two views that clients bring, one is taken for the other
    DEFECT_LEAKED_RING,      // descriptors of rings stay open
    DEFECT_LEAKED_MAP,       // rings of pools stay mapped
    DEFECT_LEAKED_BLOCK,     // the memory of sessions is not freed
    DEFECT_LEAKED_USER,      // sessions stay counted
    DEFECTS
};

// "": none. False: there is none of that name.
bool defect_choose(const char *name);
bool defect_is(enum defect defect);

#endif
