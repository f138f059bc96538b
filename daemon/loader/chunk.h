// From a claimed chunk to the reads that fill it. Pure: no system calls, and no memory allocated after chunk_plan_init
// (except to split a failed read, and for stored samples that differ in size).
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
// A sample of a ragged field is read to where the sizes of those before it say, from the place of its chunk on, which
// the supervisor has computed in the same way (chunk_ragged.h). Where a stage makes samples of one shape of stored ones
// that differ in size, these are read to memory of the plan, one after another (chunk_varying.h).
//
// Of a mix, each part has segments of its own, which take the chunk's samples of that part. Stages of a mix make
// samples from memory of the plan, because parts may store a field in different sizes.
//
// Of a dataset with an index, each column is a segment of its own: extents are read as the index says, cut or filled up
// to one size, and values are copied out of the index without a read. Samples that lie in blocks are not read, but
// copied once the block is decoded (job_blocks.h): the plan says which blocks the chunk needs.
#ifndef FEEDD_DAEMON_LOADER_CHUNK_H
#define FEEDD_DAEMON_LOADER_CHUNK_H

#include "base/error.h"
#include "daemon/dataset/dataset.h"
#include "daemon/loader/block/block_wait.h"
#include "daemon/loader/read/reader.h"
#include "daemon/loader/stage/stage_set.h"
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

// A source of a mix, or the whole of any other dataset.
struct chunk_part {
    const struct dataset_layout *layout; // of the part; its streams refer to files of the plan's layout
    const struct stage_set *stages;      // or NULL
    const uint8_t *index;                // NULL: the plan's
    uint64_t first_sample;               // the number of its first stored sample
    uint32_t first_file;                 // what its index calls file 0
    uint32_t first_number;               // of a folder: the number of its first stored sample's file
    uint64_t first_block;                // the number of its first block
    // Of the claim, set by chunk_plan_fill: the part's samples are members[first_member..first_member+member_count-1].
    uint32_t first_member, member_count;
};

struct chunk_extent {
    uint64_t slot_offset; // of the field's array
    uint64_t delivered;   // bytes of the field in one sample of that array
    uint64_t bytes;       // ... in one sample as it is read: the same unless there is a stage
    uint64_t gap;         // bytes to discard between the previous extent of this segment and this one
    uint64_t needed;      // memory outside the slot for one sample; 0: read into the slot
    uint64_t stride; // from one sample to the next where they are read to: `bytes`, in a mix perhaps more
    uint32_t field;
    uint32_t ragged; // the number of a ragged field, from 1; 0: it is not
    // Where stored samples differ in size and delivered ones do not: what says their sizes. Else NULL.
    const struct dataset_column *sizes;
    uint8_t *start;      // where the first sample of the claim is read to; the others follow
    uint8_t *apart;      // memory of the plan to read to, if any is needed
    struct stage *stage; // or NULL
    // Of a ragged field, and of all parts of the plan: where each sample of the claim is read to, in bytes from the
    // slot's start, which is `start`. Of a field that varies in any part likewise, in the plan's memory.
    uint64_t *places;
    // Where a cache may have it: what it has of each sample of the claim, which is then not read. Else NULL.
    const struct sample_cached *cached;
};

// A field whose stored samples differ in size, in all parts of the plan (chunk_varying.h).
struct chunk_varying {
    uint32_t field;
    uint64_t *places;             // of each sample of the claim
    struct sample_cached *cached; // the same
    struct chunk_extent **extent; // of the field in each part; NULL: no stage makes it there
    uint8_t *memory;
    uint64_t room; // bytes of it
};

// Extents of one stream that are read together, or a column of the index.
struct chunk_segment {
    uint32_t part; // of the plan's
    const struct dataset_stream *stream;
    const struct dataset_column *column; // or NULL
    uint64_t offset;                     // in the record
    uint64_t bytes;                      // to the end of its last extent
    const struct chunk_extent *extents;
    uint32_t extent_count;
};

// A block that the claim needs, and its samples that lie in it.
struct chunk_need {
    struct block_wait wait; // the cache's, while the block is being loaded
    void *chunk;            // the plan's
    uint32_t segment;
    uint32_t block;
    uint32_t first_sample, sample_count; // in the plan's need_samples
};

struct chunk_plan {
    // The caller's: the indices of the chunk's samples, to be written before chunk_plan_fill (by order_samples); and
    // the value of every request's `chunk`.
    uint64_t *samples;
    void *chunk;
    // ... where slow stages say which sample they work on; NULL: nowhere;
    struct stats_loader *stats;
    // ... whether slow stages may leave a sample for later (chunk_stage_run);
    bool patient;
    // ... and the dataset's index, to be set before the first chunk_plan_fill if there is one.
    const uint8_t *index;
    // Results of chunk_plan_fill.
    struct ring_claim claim;
    struct read_request *requests;
    uint32_t request_count;
    uint32_t piece_count;
    struct iovec *pieces;
    uint32_t *members; // request->first_sample is an index in here; each is a sample of the chunk, from 0
    struct chunk_need *needs;
    uint32_t need_count;
    uint32_t *need_samples; // each a sample of the chunk, from 0
    // Private.
    const struct dataset_layout *layout;
    const struct ring *ring;
    struct chunk_part *parts;
    uint32_t part_count;
    uint64_t stored_samples;
    uint32_t capacity; // samples
    uint16_t *part_of; // of a mix: of each sample
    bool members_sorted;
    uint64_t ragged_bytes; // of the claim's samples in ragged fields
    uint32_t ragged_count;
    uint64_t *ragged_places;                      // [field][sample]: what extents have of it
    const struct dataset_column **ragged_columns; // [part][field]
    uint64_t merge_window;                        // samples in a file this close together are read at once
    uint64_t *failed;                             // one bit per sample
    struct chunk_split *splits;
    uint32_t need_sample_count;
    uint32_t block_sample_count; // of the segment that is being planned
    struct chunk_block_sample *block_samples;
    uint8_t *apart; // the extents' memory outside the slot
    uint32_t varying_count;
    struct chunk_varying *varying;
    uint32_t segment_count;
    struct chunk_segment *segments;
    uint32_t extent_count;
    struct chunk_extent *extents;
    uint32_t staged_extents; // done for the sample that a stage has left for later
};

// The memory outside the slot that a plan has for stages; on average, where stored samples differ in size. Of a dataset
// that is not a mix, `parts` is all of it.
uint64_t chunk_apart_bytes(const struct chunk_part *parts, uint32_t part_count, const struct ring *ring);

// Makes a plan for chunks of at most ring->header->chunk_samples samples. `layout`, `ring` and `stages` must outlive
// it; `stages` may be NULL: every field is delivered as stored. -EINVAL when ring, dataset and stages do not agree.
int chunk_plan_init(struct chunk_plan *plan, const struct dataset_layout *layout, const struct ring *ring,
                    const struct stage_set *stages, struct error *error);

// The same for a mix, with its parts, which are copied, in the order of their samples. `stored_samples` are those of
// all parts.
int chunk_plan_init_mix(struct chunk_plan *plan, const struct dataset_layout *layout, const struct ring *ring,
                        const struct chunk_part *parts, uint32_t part_count, uint64_t stored_samples,
                        struct error *error);
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

// The number that a sample of the chunk has in the segment's part.
static inline uint64_t chunk_stored_sample(const struct chunk_plan *plan, const struct chunk_segment *segment,
                                           uint32_t member) {
    return plan->samples[member] - plan->parts[segment->part].first_sample;
}

static inline const uint8_t *chunk_part_index(const struct chunk_plan *plan, uint32_t part) {
    const uint8_t *index = plan->parts[part].index;
    return index ? index : plan->index;
}

// The index of the segment's part.
static inline const uint8_t *chunk_index(const struct chunk_plan *plan, const struct chunk_segment *segment) {
    return chunk_part_index(plan, segment->part);
}

// What the index says of a sample of the part in a segment that is a column of extents.
static inline const struct index_extent *
chunk_index_extent(const struct chunk_plan *plan, const struct chunk_segment *segment, uint64_t sample) {
    return (const struct index_extent *)(const void *)(chunk_index(plan, segment) + segment->column->offset) +
           sample;
}

// Whether a sample of the chunk is incomplete, so that nothing of it can be read.
bool chunk_is_incomplete(const struct chunk_plan *plan, uint32_t member);

// The part that a sample of the dataset belongs to.
uint32_t chunk_find_part(const struct chunk_plan *plan, uint64_t sample);

// Where a sample of the chunk is read to, once the plan is filled.
static inline uint8_t *chunk_extent_address(const struct chunk_extent *extent, uint32_t member) {
    return extent->start + (extent->places ? extent->places[member] : member * extent->stride);
}

// Whether a sample of the chunk comes from a cache.
static inline bool chunk_is_cached(const struct chunk_extent *extent, uint32_t member) {
    return extent->cached && extent->cached[member].pixels;
}

// The blocks of the segment's part.
static inline const struct index_block *chunk_blocks(const struct chunk_plan *plan,
                                                     const struct chunk_segment *segment) {
    return (const struct index_block *)(const void *)(chunk_index(plan, segment) +
                                                      plan->parts[segment->part].layout->blocks.offset);
}

// Where the bytes of a sample begin that is in a segment with extents.
struct chunk_place {
    uint32_t file;   // of the layout, that its extent names: of a folder, the folder
    uint32_t number; // of the file, as requests have it (folder_file.h)
    uint64_t offset;
    const struct index_block *block; // that it lies in: then file and offset are the block's. NULL: none
};

static inline struct chunk_place chunk_find_place(const struct chunk_plan *plan,
                                                  const struct chunk_segment *segment, uint64_t sample) {
    const struct index_extent *extent = chunk_index_extent(plan, segment, sample);
    const struct chunk_part *part = &plan->parts[segment->part];
    if (segment->column->kind == COLUMN_BLOCKS) {
        const struct index_block *block = chunk_blocks(plan, segment) + extent->file;
        const bool plain = block->codec == BLOCK_PLAIN;
        const uint32_t file = part->first_file + block->file;
        return (struct chunk_place){file, file, block->stored[0].offset + (plain ? extent->offset : 0),
                                    plain ? NULL : block};
    }
    const uint32_t file = part->first_file + extent->file;
    if (part->layout->folder_count)
        return (struct chunk_place){file, part->first_number + (uint32_t)sample, 0, NULL};
    return (struct chunk_place){file, file, extent->offset, NULL};
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
