// Rows of a record batch or row group that cannot be served, because they have a null or not as many values as all
// others, and how they become samples that are incomplete (incomplete.h).
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_SPOILED_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_SPOILED_H

#include "daemon/source/arrow/arrow_fields.h"
#include "daemon/source/index/incomplete.h"

enum arrow_fault {
    ARROW_FAULT_NULL,
    ARROW_FAULT_COUNT, // of values
    ARROW_FAULTS,
};

struct arrow_spoiled {
    bool listed; // else such a row refuses the file
    // Of each row of the batch: 0, or 1 + ARROW_FAULTS * number of the field + the fault that was found first. NULL: no
    // row has any.
    uint8_t *faults;
    struct incomplete_part incomplete; // of the file so far; the caller's
};

// `count` is that of the batch's rows. False: no memory.
bool arrow_spoil(struct arrow_spoiled *spoiled, uint64_t count, uint64_t row, uint32_t field,
                 enum arrow_fault fault);

static inline bool arrow_is_spoiled(const struct arrow_spoiled *spoiled, uint64_t row) {
    return spoiled->faults && spoiled->faults[row];
}

// At the end of a batch whose `count` rows are the last ones of `rows`: those that are spoiled become incomplete, and
// are left without bytes. False: no memory.
bool arrow_spoiled_end(struct arrow_spoiled *spoiled, const struct arrow_fields *fields,
                       struct index_rows *rows, uint64_t count);

// Also after a failure. `incomplete` stays.
void arrow_spoiled_forget(struct arrow_spoiled *spoiled);

#endif
