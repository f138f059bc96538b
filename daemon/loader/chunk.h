// From a claimed chunk to the reads that fill it. Pure: no system calls, and no memory allocated after chunk_plan_init
// (except to split a failed read).
//
// The fields of a record are read together, from the first to the last, and scattered straight into their arrays in
// the slot. Bytes between them go to reader_scratch; a record with a large gap is read in several segments. Samples
// that are neighbours in a file become one read, and a large sample becomes several. So a request serves one or more
// samples, and a sample may need several requests.
//
// A field with a stage is read as it is stored, and the stage makes what is delivered once all reads are done
// (chunk_stage.h). It is read to the end of the chunk's part of its array and expanded from the front, so that nothing
// is overwritten while it is still needed; or, where the stage asks for that, into memory of the plan.
//
// Of a dataset with an index, each column is a segment of its own: extents are read as the index says, cut or filled up
// to one size, and values are copied out of the index without a read.
#ifndef FEEDD_DAEMON_LOADER_CHUNK_H
#define FEEDD_DAEMON_LOADER_CHUNK_H

#include "base/error.h"
#include "daemon/loader/read/reader.h"
#include "daemon/loader/stage/stage_set.h"
#include "daemon/source/dataset.h"
#include "shm/ring.h"
#include "shm/ring_loader.h"

enum chunk_flags {
    // Samples that follow each other in the order and in the file become one read. Off with io_delay_us, which is per
    // sample.
    CHUNK_MERGE = 1,
    // Sort the samples to find neighbours, where enough of them can be expected: for readers with a high cost per
    // request (uring, preadv).
    CHUNK_SORT = 2,
};

struct chunk_extent {
    uint64_t slot_offset; // of the field's array
    uint64_t delivered;   // bytes of the field in one sample of that array
    uint64_t bytes;       // ... in one sample as it is read: the same unless there is a stage
    uint64_t gap;         // bytes to discard between the previous extent of this segment and this one
    uint64_t needed;      // memory outside the slot for one sample; 0: read into the slot
    uint8_t *start;       // where the first sample of the claim is read to; the others follow
    uint8_t *apart;       // memory of the plan to read to, if any is needed
    struct stage *stage;  // or NULL
};

// Extents of one stream that are read together, or a column of the index.
struct chunk_segment {
    const struct dataset_stream *stream;
    const struct dataset_column *column; // or NULL
    uint64_t offset;                     // in the record
    uint64_t bytes;                      // to the end of its last extent
    const struct chunk_extent *extents;
    uint32_t extent_count;
};

struct chunk_plan {
    // The caller's: the indices of the chunk's samples, to be written before chunk_plan_fill (by order_samples); and
    // the value of every request's `chunk`.
    uint64_t *samples;
    void *chunk;
    // ... and the dataset's index, to be set before the first chunk_plan_fill if there is one.
    const uint8_t *index;
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
    const struct stage_set *stages;
    uint32_t capacity; // samples
    bool members_sorted;
    uint64_t merge_window; // samples in a file this close together are read at once
    uint64_t *failed;      // one bit per sample
    struct chunk_split *splits;
    uint8_t *apart; // the extents' memory outside the slot
    uint32_t segment_count;
    struct chunk_segment segments[RING_MAX_FIELDS];
    uint32_t extent_count;
    struct chunk_extent extents[RING_MAX_FIELDS];
};

// The memory outside the slot that a plan allocates for stages.
uint64_t chunk_apart_bytes(const struct dataset_layout *layout, const struct ring *ring,
                           const struct stage_set *stages);

// Makes a plan for chunks of at most ring->header->chunk_samples samples. `layout`, `ring` and `stages` must outlive
// it; `stages` may be NULL: every field is delivered as stored. -EINVAL when ring, dataset and stages do not agree.
int chunk_plan_init(struct chunk_plan *plan, const struct dataset_layout *layout, const struct ring *ring,
                    const struct stage_set *stages, struct error *error);
void chunk_plan_free(struct chunk_plan *plan);

// Plans the reads of `claim`, whose sample indices are in plan->samples. `flags` are enum chunk_flags.
// -EINVAL when the claim is larger than the plan or an index is beyond the dataset.
int chunk_plan_fill(struct chunk_plan *plan, const struct ring_claim *claim, uint32_t flags);

// For a failed request that serves several samples: *list becomes requests of one sample each, linked by
// `next`, which live until the next fill. Returns their number, 0 for a request of one sample, or -ENOMEM.
int chunk_plan_split(struct chunk_plan *plan, const struct read_request *request, struct read_request **list);

// The index-th sample that a request serves (index < request->sample_count), counted from the chunk's first.
static inline uint32_t chunk_request_sample(const struct chunk_plan *plan, const struct read_request *request,
                                            uint32_t index) {
    return plan->members[request->first_sample + index];
}

// What the index says of a sample in a column of extents.
static inline const struct index_extent *
chunk_index_extent(const struct chunk_plan *plan, const struct dataset_column *column, uint64_t sample) {
    return (const struct index_extent *)(const void *)(plan->index + column->offset) + sample;
}

// Where a field is delivered: the place of the chunk's first sample in the slot.
uint8_t *chunk_delivered(const struct chunk_plan *plan, const struct chunk_extent *extent);

// Whether a sample of the chunk, counted from its first, was marked as failed since the plan was filled.
static inline bool chunk_plan_failed(const struct chunk_plan *plan, uint32_t sample) {
    return plan->failed[sample / 64] >> (sample % 64) & 1;
}

// Marks a sample as failed; false if it was marked before (because of another of its reads).
bool chunk_plan_mark_failed(struct chunk_plan *plan, uint32_t sample);

#endif
