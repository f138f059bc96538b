#include "tests/simulate/datasets.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/simulate/sim.h"

#define NPY_HEAD   128u // bytes before the values
#define MILLIONTHS 1000000u

const struct dataset_plan dataset_plans[DATASETS] = {
    [DATASET_SMALL] = {"small", DATASET_SMALL, 57, 16, {0}},
    [DATASET_LARGE] = {"large", DATASET_LARGE, 33, 44 << 10, {0}},
    [DATASET_STRICT] = {"strict", DATASET_STRICT, 40, 16, {0}},
    [DATASET_RAGGED] = {"ragged", DATASET_RAGGED, 33, 0, {0}},
    [DATASET_REPLACED] = {"replaced", DATASET_REPLACED, 46, 16, {0}},
    [DATASET_SPLIT] = {"split", DATASET_LARGE, 33, 44 << 10, {VIEW_SPLIT, 33, 3, 23, 5}},
    [DATASET_LISTED] = {"listed", DATASET_RAGGED, 33, 0, {VIEW_LIST, 33, 0, 38, 2}},
    [DATASET_DRAWN] = {"drawn", DATASET_REPLACED, 46, 16, {VIEW_DRAWS, 46, 0, 41, 1}},
    [DATASET_MIXED] = {"mixed", DATASET_MIXED, 45, 16, {0}},
};

// A third is tiny, or empty; few are much larger than the others.
uint64_t dataset_bytes_of(enum dataset_kind stored, uint64_t sample) {
    if (dataset_plans[stored].sample_bytes)
        return dataset_plans[stored].sample_bytes;
    if (sample % 11 == 5)
        return 120000 + sample;
    return sample % 3 == 0 ? sample % 5 * 7 : 24000 * (sample % 3) + 3 * sample;
}

// ---- Files -------------------------------------------------------------------------------------------------

static int memory_file(void) {
    int fd = memfd_create("simulate", MFD_CLOEXEC);
    SIM_MUST(fd >= 0);
    return fd;
}

static void write_all(int fd, const void *bytes, uint64_t count) {
    SIM_MUST(write(fd, bytes, count) == (ssize_t)count);
}

// A NumPy file of one dimension.
static int npy_file(const char *descr, const void *values, uint64_t count, uint64_t bytes) {
    static const uint8_t magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, NPY_HEAD - 10, 0};
    char head[NPY_HEAD];
    int fd = memory_file();
    memset(head, ' ', sizeof head);
    memcpy(head, magic, sizeof magic);
    int used = snprintf(head + sizeof magic, sizeof head - sizeof magic,
                        "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ",), }", descr, count);
    head[sizeof magic + (size_t)used] = ' ';
    head[NPY_HEAD - 1] = '\n';
    write_all(fd, head, sizeof head);
    write_all(fd, values, bytes);
    return fd;
}

// Where the samples of a ragged dataset begin, and where the last one ends.
static int offsets_file(enum dataset_kind kind) {
    const uint64_t samples = dataset_plans[kind].samples;
    uint64_t offsets[DATASET_MOST + 1] = {0};
    for (uint64_t i = 0; i < samples; i++)
        offsets[i + 1] = offsets[i] + dataset_bytes_of(kind, i);
    return npy_file("<u8", offsets, samples + 1, (samples + 1) * sizeof offsets[0]);
}

// ---- The configuration -------------------------------------------------------------------------------------

static const char *on_error(enum dataset_kind kind) {
    return kind == DATASET_LARGE ? "skip" : kind == DATASET_REPLACED ? "replace" : "fail";
}

// Nobody reads the data: simulated loaders know the bytes of each sample.
static void write_dataset(int fd, enum dataset_kind kind) {
    const struct dataset_plan *plan = &dataset_plans[kind];
    uint64_t bytes = 0;
    int data_fd = memory_file();
    for (uint64_t i = 0; i < plan->samples; i++)
        bytes += dataset_bytes_of(kind, i);
    SIM_MUST(ftruncate(data_fd, (off_t)bytes) == 0);
    dprintf(fd, "[dataset %s]\nformat = records\non_error = %s\npath = /proc/self/fd/%d\n", plan->name,
            on_error(kind), data_fd);
    if (plan->sample_bytes)
        dprintf(fd, "record_bytes = %" PRIu64 "\nfield.x = u8[%" PRIu64 "] @ 0\n", plan->sample_bytes,
                plan->sample_bytes);
    else
        dprintf(fd, "field.x = u8\noffsets = /proc/self/fd/%d\n", offsets_file(kind));
}

static void write_view(int fd, const struct dataset_plan *plan) {
    const struct reference_view *view = &plan->view;
    struct view_numbers numbers;
    struct feed_view same = view_brought(view, &numbers);
    dprintf(fd, "[view %s]\nof = %s\n", plan->name, dataset_plans[plan->of].name);
    if (view->kind == VIEW_SPLIT)
        dprintf(fd, "samples = %g%%..%g%%\nsplit_seed = %" PRIu64 "\n", same.begin / 1e4, same.end / 1e4,
                view->seed);
    else if (view->kind == VIEW_LIST)
        dprintf(fd, "indices = /proc/self/fd/%d\n",
                npy_file("<u2", numbers.indices, view->count, view->count * sizeof numbers.indices[0]));
    else
        dprintf(fd, "epoch_samples = %" PRIu64 "\nweights = /proc/self/fd/%d\n", view->count,
                npy_file("<f4", numbers.weights, view->of, view->of * sizeof numbers.weights[0]));
}

void datasets_write(int fd) {
    for (uint32_t i = 0; i < DATASETS; i++)
        if (dataset_plans[i].view.kind)
            write_view(fd, &dataset_plans[i]);
        else if (i != DATASET_MIXED)
            write_dataset(fd, (enum dataset_kind)i);
    dprintf(fd, "[mix %s]\nsource.small = 2\nsource.strict = 1\nepoch_samples = %" PRIu64 "\n",
            dataset_plans[DATASET_MIXED].name, dataset_plans[DATASET_MIXED].samples);
}

// ---- Views that clients bring ------------------------------------------------------------------------------

struct reference_view view_to_bring(enum dataset_kind of, uint64_t number) {
    const uint64_t samples = dataset_plans[of].samples;
    struct reference_view view = {.kind = (enum view_kind)(VIEW_RANGE + number % 4), .of = samples};
    view.seed = number / 4 % 3;
    view.first = view.kind <= VIEW_SPLIT ? samples / 6 * view.seed : 0;
    view.count = view.kind <= VIEW_SPLIT ? samples * 3 / 5 : samples - 6;
    return view;
}

// A bound of a part is a number of millionths, of which the daemon takes as many samples as are whole.
static uint32_t bound(uint64_t sample, uint64_t of) {
    return (uint32_t)divide_up(sample * MILLIONTHS, of);
}

struct feed_view view_brought(const struct reference_view *view, struct view_numbers *memory) {
    struct feed_view same = {.bytes = sizeof same, .kind = (enum feed_view_kind)view->kind};
    switch (view->kind) {
    case VIEW_RANGE:
    case VIEW_SPLIT:
        same.begin = bound(view->first, view->of);
        same.end = bound(view->first + view->count, view->of);
        same.seed = view->kind == VIEW_SPLIT ? view->seed : 0;
        return same;
    case VIEW_LIST:
        for (uint64_t i = 0; i < view->count; i++)
            memory->indices[i] = (uint16_t)reference_listed(view, i);
        same.data = memory->indices;
        same.count = view->count;
        same.dtype = FEED_U16;
        return same;
    default:
        for (uint64_t i = 0; i < view->of; i++)
            memory->weights[i] = (float)reference_weight(view, i);
        same.data = memory->weights;
        same.count = view->of;
        same.dtype = FEED_F32;
        same.epoch_samples = view->count;
        return same;
    }
}
