// A stage: what happens to the samples of one field between the read and the slot. It takes the stored bytes of a
// sample, writes the delivered ones, and can refuse one sample without harm to its neighbours.
//
// A loader opens one stage per field and runs it in one thread, so a stage may keep scratch memory of its own between
// runs. It gets runs of consecutive samples, so that a cheap stage can go through all of them in one loop. The same
// stored bytes, epoch and position must always yield the same delivered bytes: a chunk whose loader was killed is made
// again by another one, and in runs of other lengths.
#ifndef FEEDD_DAEMON_LOADER_STAGE_STAGE_H
#define FEEDD_DAEMON_LOADER_STAGE_STAGE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/scope.h"
#include "shm/sample_cache.h"

struct stage;
struct stage_run;
struct stats_loader;

struct stage_ops {
    const char *name; // "transform", for log lines
    // A sample takes it milliseconds: it gets runs of one sample, and the loader looks after its reads in between.
    bool slow;
    // The memory that one sample of `stored_bytes` needs outside the slot until the stage has run; known before the
    // sample is read. 0: it is read into its place in the slot (see stage_run), which must be large enough for it;
    // otherwise at least stored_bytes. -EINVAL: the stage cannot make a sample of so many bytes. Only a slow stage
    // takes samples that differ in size; it is asked about the largest, and each then has what the index says of it.
    int (*bytes_needed)(const struct stage *stage, uint64_t stored_bytes, uint64_t *bytes);
    // Makes what is delivered of every sample of the run, and calls stage_refuse for those that it cannot make.
    void (*run)(struct stage *stage, const struct stage_run *run);
    // Frees the stage.
    void (*close)(struct stage *stage);
};

// The first member of every stage's own structure.
struct stage {
    const struct stage_ops *ops;
};

// What there is of a field of one sample: its stored bytes, or, if a cache has it, that alone.
struct stage_sample {
    const uint8_t *stored;
    uint64_t bytes;
    struct sample_cached cached;
};

// Sample i of a run, for i < count. All of them were read without an error.
struct stage_run {
    // One sample after another in both. Where bytes_needed is 0, `stored` may lie in the memory of the delivered
    // samples, of these and of later ones, so that both end at the same byte: a stage then writes from front to back,
    // and never past what it has read.
    const uint8_t *stored;
    uint8_t *delivered;
    uint64_t stored_bytes, delivered_bytes; // of one sample
    uint32_t count;
    const uint64_t *samples; // samples[i]: its index in the dataset
    // Sample i stands at first_position + i of this epoch's order: what counted randomness is keyed by, with the feed's
    // seed.
    uint64_t seed, epoch, first_position;
    // Of a slow stage, whose runs have one sample: the number of that among those stored in its part, and what a cache
    // has of it. If that is anything, it has not been read.
    uint64_t stored_sample;
    struct sample_cached cached;
    struct stats_loader *stats; // of this loader, for counters that only the stage knows; NULL: nowhere
    // Finds another field of the sample of a slow stage, as it is before the stage of that field has run, or after.
    // False if it is not there any more. NULL: fields cannot be found.
    bool (*find)(void *context, uint32_t field, struct stage_sample *sample);
    // What stage_refuse calls.
    void (*refused)(void *context, uint32_t i, const struct error *error);
    void *context;
};

// Sample i cannot be made: a negative errno and a sentence for people. Its place in the slot may hold anything.
void stage_refuse(const struct stage_run *run, uint32_t i, int code, const char *format, ...)
    PRINTF_LIKE(4, 5);

#endif
