#include "daemon/loader/stage/transform_run.h"

#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/loader/stage/transform_kernels.h"
#include "daemon/loader/stage/transform_whole.h"

// Elements that go through all steps together, in the first-level cache. A multiple of TRANSFORM_LANES, since each
// block begins with lane 0.
#define BLOCK 1024u
_Static_assert(BLOCK % TRANSFORM_LANES == 0, "");

// Channels shorter than this are not processed one by one: their values are laid out next to the elements.
#define SHORT_CHANNEL 64u

struct run {
    const struct transform *transform;
    const struct transform_kernels *kernels;
    const uint8_t *stored; // the sample
    uint64_t elements;     // of it
    size_t source_bytes;
    // Of each standardise among the steps, for this sample.
    float mean[TRANSFORM_MAX_STEPS], deviation[TRANSFORM_MAX_STEPS];
    float x[BLOCK] __attribute__((aligned(CACHE_LINE)));
    float values[BLOCK] __attribute__((aligned(CACHE_LINE)));
    union {
        int64_t whole[BLOCK];
        double real[BLOCK];
    } wide; // on the way to an integer type
    uint8_t made[BLOCK * sizeof(uint64_t)]
        __attribute__((aligned(CACHE_LINE))); // elements that change places
};

static void apply_short_channels(struct run *run, const struct transform_step *step, uint64_t first,
                                 size_t count) {
    uint64_t channel = run->transform->channel;
    uint64_t number = first / channel % run->transform->channels, left = channel - first % channel;
    for (size_t i = 0; i < count; i++, left--) {
        if (left == 0) {
            number++;
            left = channel;
        }
        if (number == run->transform->channels)
            number = 0;
        run->values[i] = step->values[number];
    }
    run->kernels->each[step->kind](run->x, run->values, count);
}

static void apply_channels(struct run *run, const struct transform_step *step, uint64_t first, size_t count) {
    uint64_t channel = run->transform->channel;
    for (size_t done = 0; done < count;) {
        uint64_t number = (first + done) / channel, left = channel - (first + done) % channel;
        size_t some = (size_t)min_u64(left, count - done);
        run->kernels->one[step->kind](run->x + done, step->values[number], some);
        done += some;
    }
}

static void standardise(struct run *run, uint32_t index, size_t count) {
    if (run->deviation[index] == 0) {
        memset(run->x, 0, count * sizeof run->x[0]);
        return;
    }
    run->kernels->one[TRANSFORM_MEAN](run->x, run->mean[index], count);
    run->kernels->one[TRANSFORM_STD](run->x, run->deviation[index], count);
}

// Elements first..first+count-1 of the sample after its first `steps` steps, in run->x.
static void make_block(struct run *run, uint64_t first, size_t count, uint32_t steps) {
    const struct transform *transform = run->transform;
    run->kernels->load[transform->stored](run->x, run->stored + first * run->source_bytes, count);
    for (uint32_t i = 0; i < steps; i++) {
        const struct transform_step *step = &transform->steps[i];
        if (step->kind == TRANSFORM_STANDARDISE)
            standardise(run, i, count);
        else if (step->count == 1)
            run->kernels->one[step->kind](run->x, step->values[0], count);
        else if (transform->channel < SHORT_CHANNEL)
            apply_short_channels(run, step, first, count);
        else
            apply_channels(run, step, first, count);
    }
}

static size_t block_at(const struct run *run, uint64_t first) {
    return (size_t)min_u64(BLOCK, run->elements - first);
}

static double add_lanes(const double *lanes) {
    double sum = 0;
    for (uint32_t i = 0; i < TRANSFORM_LANES; i++)
        sum += lanes[i];
    return sum;
}

// What the standardise step at `index` needs to know about the sample after the steps before it.
static void measure(struct run *run, uint32_t index) {
    double sums[TRANSFORM_LANES] = {0}, squares[TRANSFORM_LANES] = {0};
    for (uint64_t first = 0; first < run->elements; first += BLOCK) {
        make_block(run, first, block_at(run, first), index);
        run->kernels->sum(sums, run->x, block_at(run, first));
    }
    double mean = add_lanes(sums) / (double)run->elements;
    for (uint64_t first = 0; first < run->elements; first += BLOCK) {
        make_block(run, first, block_at(run, first), index);
        run->kernels->squares(squares, run->x, mean, block_at(run, first));
    }
    run->mean[index] = (float)mean;
    run->deviation[index] = (float)sqrt(add_lanes(squares) / (double)run->elements);
}

// Elements first..first+count-1 of the sample as they are delivered.
static void store_block(struct run *run, uint8_t *to, uint64_t first, size_t count) {
    const struct transform *transform = run->transform;
    const uint8_t *stored = run->stored + first * run->source_bytes;
    const bool whole = transform_is_whole(transform->target), plain = transform->step_count == 0;
    if (plain && transform->target == transform->stored) {
        memmove(to, stored, count * run->source_bytes);
    } else if (plain && whole && transform_is_whole(transform->stored)) {
        transform_load_whole(transform->stored, run->wide.whole, stored, count);
        transform_store_whole(transform->target, to, run->wide.whole, count);
    } else if (plain && whole && transform->stored == DTYPE_F64) {
        memcpy(run->wide.real, stored, count * sizeof run->wide.real[0]);
        transform_store_rounded(transform->target, to, run->wide.real, count);
    } else {
        make_block(run, first, count, transform->step_count);
        for (size_t i = 0; whole && i < count; i++)
            run->wide.real[i] = (double)run->x[i];
        if (whole)
            transform_store_rounded(transform->target, to, run->wide.real, count);
        else
            run->kernels->store[transform->target](to, run->x, count);
    }
}

// Puts elements first..first+count-1 of those stored, which are in run->made, where they belong. The stored order has
// an inner axis of `inner` elements, which becomes the outer one.
#define MOVE(bytes, type)                                                                                    \
    case bytes:                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                                 \
            memcpy(to + (in * outer + out) * sizeof(type), run->made + i * sizeof(type), sizeof(type));      \
            if (++in == inner) {                                                                             \
                in = 0;                                                                                      \
                out++;                                                                                       \
            }                                                                                                \
        }                                                                                                    \
        return;

static void move_block(const struct run *run, uint8_t *to, uint64_t first, size_t count) {
    const struct transform *transform = run->transform;
    const bool planes = transform->arrangement == TRANSFORM_CHW;
    const uint64_t inner = planes ? transform->elements / transform->channels : transform->channels;
    const uint64_t outer = transform->elements / inner;
    uint64_t out = first / inner, in = first % inner;
    switch (dtype_bytes(transform->target)) {
        MOVE(1, uint8_t)
        MOVE(2, uint16_t)
        MOVE(4, uint32_t)
        MOVE(8, uint64_t)
    default:
        return; // no such type is delivered
    }
}

// Whether any step treats an element differently depending on its place in the sample.
static bool depends_on_place(const struct transform *transform) {
    if (transform_moves(transform))
        return true;
    for (uint32_t i = 0; i < transform->step_count; i++)
        if (transform->steps[i].count != 1)
            return true;
    return false;
}

void transform_run_with(const struct transform_kernels *kernels, const struct transform *transform,
                        const uint8_t *stored, uint8_t *delivered, uint64_t samples) {
    struct run run;
    const size_t target_bytes = dtype_bytes(transform->target);
    const bool moves = transform_moves(transform);
    run.transform = transform;
    run.kernels = kernels;
    run.source_bytes = dtype_bytes(transform->stored);
    run.elements = transform->elements;
    if (!depends_on_place(transform)) { // then the samples are one large sample
        run.elements *= samples;
        samples = 1;
    }
    for (uint64_t sample = 0; sample < samples; sample++) {
        run.stored = stored + sample * run.elements * run.source_bytes;
        uint8_t *to = delivered + sample * run.elements * target_bytes;
        for (uint32_t i = 0; i < transform->step_count; i++)
            if (transform->steps[i].kind == TRANSFORM_STANDARDISE)
                measure(&run, i);
        for (uint64_t first = 0; first < run.elements; first += BLOCK) {
            size_t count = block_at(&run, first);
            store_block(&run, moves ? run.made : to + first * target_bytes, first, count);
            if (moves)
                move_block(&run, to, first, count);
        }
    }
}

void transform_run(const struct transform *transform, const uint8_t *stored, uint8_t *delivered,
                   uint64_t samples) {
    transform_run_with(transform_kernels(0), transform, stored, delivered, samples);
}
