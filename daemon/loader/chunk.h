// From a claimed chunk to the reads that fill it. Pure: no system call, and no memory but what a plan was made with
// (splitting a failed read excepted).
//
// A record's fields are read together, from the first to the last, and scattered straight into their arrays in the
// slot; what lies between them goes to reader_scratch, or the record is read in several segments when it is much.
// Samples that are neighbours in a file become one read; a big sample becomes several. So a request serves one or
// many samples, and a sample may need many requests.
//
// A field that is transformed is read as it is stored, and made into what is delivered when all reads are done: read to
// the end of the chunk's part of its array and expanded from the front, so that nothing is overwritten that is still
// wanted; or, if that is larger than what comes of it, into memory of the plan.
#ifndef FEEDD_DAEMON_LOADER_CHUNK_H
#define FEEDD_DAEMON_LOADER_CHUNK_H

#include "base/error.h"
#include "daemon/loader/read/reader.h"
#include "daemon/source/dataset.h"
#include "shm/ring.h"
#include "shm/ring_loader.h"

enum chunk_flags {
    // neighbours in the order as it is become one read; off with io_delay_us, which is per sample
    CHUNK_MERGE = 1,
    // look for neighbours by sorting, where enough are to be expected: for readers to whom a request is
    // dear (uring, preadv)
    CHUNK_SORT = 2,
};

struct chunk_extent {
    uint64_t slot_offset; // of the field's array
    uint64_t delivered;   // bytes of the field in one sample of that array
    uint64_t bytes;       // ... in one sample as it is read: the same, unless there is a transform
    uint64_t gap;         // bytes nobody wants between the extent before it, in this segment, and this one
    uint8_t *start;       // where the first sample of the claim is read to; the others follow
    uint8_t *apart;       // memory of the plan to read to; NULL: read into the slot
    const struct transform *transform; // or NULL
};

// Extents of one stream that are read together.
struct chunk_segment {
    const struct dataset_stream *stream;
    uint64_t offset; // in the record
    uint64_t bytes;  // to the end of its last extent
    const struct chunk_extent *extents;
    uint32_t extent_count;
};

struct chunk_plan {
    // The caller's: the indices of the chunk's samples, to be written before chunk_plan_fill (order_samples does it);
    // and what goes into every request's `chunk`.
    uint64_t *samples;
    void *chunk;
    // Results of chunk_plan_fill.
    struct ring_claim claim;
    struct read_request *requests;
    uint32_t request_count;
    uint32_t piece_count;
    struct iovec *pieces;
    uint32_t *members; // request->first_sample is an index in here; each is a sample of the chunk, from 0
    // Private.
    const struct dataset_layout *layout;
    const struct ring *ring;
    uint32_t capacity; // samples
    bool members_sorted;
    uint64_t merge_window; // samples in a file among which another is near enough to be read with it
    uint64_t *failed;      // a bit a sample
    struct chunk_split *splits;
    uint8_t *apart; // for what is larger as it is read than as it is delivered
    uint32_t segment_count;
    struct chunk_segment segments[RING_MAX_FIELDS];
    uint32_t extent_count;
    struct chunk_extent extents[RING_MAX_FIELDS];
};

// Bytes that a plan sets apart for what is larger before its transform than after it.
uint64_t chunk_apart_bytes(const struct dataset_layout *layout, const struct ring *ring);

// Makes a plan for chunks of at most ring->header->chunk_samples samples; `layout` and `ring` must outlive it.
// -EINVAL when ring and dataset do not agree.
int chunk_plan_init(struct chunk_plan *plan, const struct dataset_layout *layout, const struct ring *ring,
                    struct error *error);
void chunk_plan_free(struct chunk_plan *plan);

// Plans the reads of `claim`, whose sample indices are in plan->samples. `flags` are enum chunk_flags.
// -EINVAL when the claim is larger than the plan or an index is beyond the dataset.
int chunk_plan_fill(struct chunk_plan *plan, const struct ring_claim *claim, uint32_t flags);

// After all reads: makes what is delivered of the fields that are transformed. Samples that failed become whatever.
void chunk_plan_transform(const struct chunk_plan *plan);

// For a failed request that serves several samples: *list becomes requests of one sample each, linked by
// `next`, which live until the next fill. Returns their number, 0 for a request of one sample, or -ENOMEM.
int chunk_plan_split(struct chunk_plan *plan, const struct read_request *request, struct read_request **list);

// The index-th sample that a request serves (index < request->sample_count), counted from the chunk's first.
static inline uint32_t chunk_request_sample(const struct chunk_plan *plan, const struct read_request *request,
                                            uint32_t index) {
    return plan->members[request->first_sample + index];
}

// Notes that the index-th sample of a request cannot be read; false if that was known (by another of its reads).
bool chunk_plan_mark_failed(struct chunk_plan *plan, const struct read_request *request, uint32_t index);

#endif
