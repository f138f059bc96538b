// The memory outside the slot that stages read from; private to chunk.c.
//
// A field's memory is for one sample of each part in turn. In a mix every stage reads from there, because what one part
// reads into the end of the slot would be overwritten by samples of others. A field whose stored samples differ in size
// in any part has memory of its own in all of them (chunk_varying.h).
#ifndef FEEDD_DAEMON_LOADER_CHUNK_APART_H
#define FEEDD_DAEMON_LOADER_CHUNK_APART_H

#include "daemon/loader/chunk.h"

struct chunk_apart {
    const struct ring *ring;
    bool mixed;
    uint64_t of_field[RING_MAX_FIELDS]; // the most bytes that a sample needs
    uint64_t mean[RING_MAX_FIELDS];     // of one whose stored samples differ in size
};

// A column as an extent of records that hold nothing else.
struct dataset_extent chunk_apart_column_extent(const struct dataset_column *column);

// What a sample of an extent of the part needs; 0: it is read into the slot. -EINVAL if its field does not match the
// ring's.
int chunk_apart_extent(struct chunk_apart *apart, const struct dataset_extent *extent,
                       const struct chunk_part *part, uint64_t *bytes);
int chunk_apart_column(struct chunk_apart *apart, const struct dataset_column *column,
                       const struct chunk_part *part, uint64_t *bytes);

// Allocates the memory of fields whose samples have one size. It is not touched before it is used. False: there is
// none.
bool chunk_apart_allocate(struct chunk_plan *plan, const struct chunk_apart *apart);

#endif
