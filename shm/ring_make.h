// Planning and making a ring. ring.h says what it is.
#ifndef FEEDD_SHM_RING_MAKE_H
#define FEEDD_SHM_RING_MAKE_H

#include "base/error.h"
#include "shm/layout.h"

// What a ring is made for. ring_plan fills in slot_offset of the fields.
struct ring_plan {
    uint32_t slot_count;
    uint32_t batch_size;
    uint32_t field_count;
    struct ring_field fields[RING_MAX_FIELDS];
    uint64_t samples, seed, fingerprint, world_size;
    uint32_t order_version;
    // Of the values of all ragged fields together: in a sample, on average; and in a batch, at most.
    uint64_t ragged_mean, ragged_most;
    // ... and in nearly every batch. This much of each slot is allocated when the ring is made; more follows when a
    // batch needs it (ring_grow).
    uint64_t ragged_usual;
    // The bytes that loaders go through, on average, to make a sample of what is stored, if that is much more than what
    // is delivered: chunks are cut smaller.
    uint64_t work_mean;
    // the slots lie in a device pool: the object has only the control part, and a batch is one chunk
    bool on_device;
    bool replaces; // on_error = replace
    // Results.
    uint32_t ragged_count;
    uint64_t values_offset;
    uint32_t chunks_per_slot;
    uint32_t chunk_samples;
    uint64_t slot_bytes;
    uint64_t data_offset; // also the size of the control part
    uint64_t total_bytes;
    // Of slot_bytes, when the ring is made: all, unless there are ragged fields.
    uint64_t slot_allocated_bytes;
    uint64_t allocated_bytes; // ... of total_bytes
};

// Computes the results of a plan. -EOVERFLOW when a number exceeds 64 bits or a limit of the layout.
int ring_plan(struct ring_plan *plan, struct error *error);

// -ENOSPC: there is less free memory now than the ring is going to take.
int ring_find_room(const struct ring_plan *plan, struct error *error);

// A ring is made in steps. The first takes microseconds whatever the size; the others take milliseconds for every
// 32 MiB, and any thread may do them. All fail with a sentence: -ENOSPC says what is needed and what is free, -EFBIG
// names RLIMIT_FSIZE (if SIGXFSZ is ignored; by default it ends the process).
//
// Makes the shared-memory object and gives it its size, without a page in it. It has no name and cannot be given
// one, so nothing is left in /dev/shm whatever dies. *fd is read-write; *read_fd cannot be made writable by
// another user.
int ring_create(const struct ring_plan *plan, int *fd, int *read_fd, struct error *error);
// Allocates the control part and writes the header. Then the ring can be mapped, but nobody may touch a batch yet.
int ring_allocate_control(const struct ring_plan *plan, int fd, struct error *error);
// Whether that takes only microseconds, so that it need not be done in a thread.
bool ring_control_is_quick(const struct ring_plan *plan);
// ... if it is allocated: only writes the header.
int ring_write_header(const struct ring_plan *plan, int fd, struct error *error);
// Allocates `count` slots, from `first` on. Then batches can be dispatched into them.
int ring_allocate(const struct ring_plan *plan, int fd, uint32_t first, uint32_t count, struct error *error);

// Memory for the beginning of a ring that is not planned yet: an object as ring_create makes it, with `bytes`, all of
// them allocated. In any thread.
int ring_prepare(uint64_t bytes, int *fd, int *read_fd, struct error *error);
// In place of ring_create: makes such an object one of the planned size. *prepared: the bytes that it has, which may
// become fewer. After a failure, the object is of no more use.
int ring_adopt(const struct ring_plan *plan, int fd, uint64_t *prepared, struct error *error);
// How many slots are allocated with that.
uint32_t ring_prepared_slots(const struct ring_plan *plan, uint64_t prepared);

// Allocates what lies at `offset` bytes of the object: more of a slot, if a batch does not fit. In any thread.
int ring_grow(int fd, uint64_t offset, uint64_t bytes, struct error *error);

#endif
