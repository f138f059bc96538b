// What is known of one dataset's index: its state, the rounds of building or checking it, and when it is built again
// after a failure. Pure bookkeeping; indexing.c does the work.
#ifndef FEEDD_DAEMON_SUPERVISOR_INDEX_ENTRY_H
#define FEEDD_DAEMON_SUPERVISOR_INDEX_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

#define INDEX_ENTRY_TEXT 640u

enum index_state {
    INDEX_OPEN,     // the dataset is there
    INDEX_QUEUED,   // its index is to be built or checked
    INDEX_BUILDING, // ... is being built or checked
    INDEX_FAILED,   // the dataset is not there, and its index could not be built
};

const char *index_state_name(enum index_state state);

struct index_entry {
    enum index_state state;
    bool again;      // asked for while it is being built or checked: the files may have changed meanwhile
    uint64_t rounds; // that have ended
    int code;        // of the last one
    char text[INDEX_ENTRY_TEXT];
    uint32_t failures; // in a row, of causes that may pass
    uint64_t
        retry_ns; // whoever uses the dataset from then on has its index built again; 0: that would not help
};

void index_entry_queue(struct index_entry *entry);
void index_entry_begin(struct index_entry *entry);

// A round has ended. `served`: the dataset is there. A cause may pass if it lies in the machine and not in the files:
// no room, no descriptors, storage that fails. Then the index is built again when it is needed, but not at once: the
// pause grows from 1 to 64 s.
void index_entry_end(struct index_entry *entry, bool served, int code, const char *text, uint64_t now);

// Somebody asks for a round. Returns the number of that which is to be waited for.
uint64_t index_entry_want(struct index_entry *entry, bool served);

// Whether it failed for a cause that may have passed by now.
bool index_entry_is_due(const struct index_entry *entry, uint64_t now);

#endif
