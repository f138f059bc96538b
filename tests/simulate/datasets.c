#include "tests/simulate/datasets.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/simulate/sim.h"

#define NPY_HEAD   128u // bytes before the values
#define MILLIONTHS 1000000u
#define FIRST_ROW  60 // of descriptors, which have numbers that nothing else has

static const uint8_t large_files[] = {5, 11, 2, 8, 7, 0}, windowed_files[] = {7, 1, 9, 4, 12, 3, 2, 0};

const struct dataset_plan dataset_plans[DATASETS] = {
    [DATASET_SMALL] = {"small", DATASET_SMALL, 57, 16, {0}, NULL},
    [DATASET_LARGE] = {"large", DATASET_LARGE, 33, 44 << 10, {0}, large_files},
    [DATASET_STRICT] = {"strict", DATASET_STRICT, 40, 16, {0}, NULL},
    [DATASET_RAGGED] = {"ragged", DATASET_RAGGED, 33, 0, {0}, NULL},
    [DATASET_REPLACED] = {"replaced", DATASET_REPLACED, 46, 16, {0}, NULL},
    [DATASET_SPLIT] = {"split", DATASET_LARGE, 33, 44 << 10, {VIEW_SPLIT, 33, 3, 23, 5, 0, 0, NULL}, NULL},
    [DATASET_LISTED] = {"listed", DATASET_RAGGED, 33, 0, {VIEW_LIST, 33, 0, 38, 2, 0, 0, NULL}, NULL},
    [DATASET_DRAWN] = {"drawn", DATASET_REPLACED, 46, 16, {VIEW_DRAWS, 46, 0, 41, 1, 0, 0, NULL}, NULL},
    [DATASET_UNEVEN] = {"uneven", DATASET_UNEVEN, 36, 0, {0}, NULL},
    [DATASET_PATCHED] = {"patched", DATASET_PATCHED, 43, 0, {0}, NULL},
    [DATASET_WINDOWED] = {"windowed",
                          DATASET_WINDOWED,
                          38,
                          0,
                          {VIEW_NONE, 38, 0, 38, 0, 0, 2, windowed_files},
                          windowed_files},
    [DATASET_STRETCH] =
        {"stretch", DATASET_LARGE, 33, 44 << 10, {VIEW_RANGE, 33, 3, 26, 0, 0, 3, large_files}, NULL},
    [DATASET_MIXED] = {"mixed", DATASET_MIXED, 45, 16, {0}, NULL},
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

// Of `count` samples from `first` on. Nobody reads the data: simulated loaders know the bytes of each sample.
static int data_file(enum dataset_kind kind, uint64_t first, uint64_t count) {
    uint64_t bytes = 0;
    int fd = memory_file();
    for (uint64_t i = 0; i < count; i++)
        bytes += dataset_bytes_of(kind, first + i);
    SIM_MUST(ftruncate(fd, (off_t)bytes) == 0);
    return fd;
}

// Where the samples of such a file begin, and where the last one ends.
static int offsets_file(enum dataset_kind kind, uint64_t first, uint64_t count) {
    uint64_t offsets[DATASET_MOST + 1] = {0};
    for (uint64_t i = 0; i < count; i++)
        offsets[i + 1] = offsets[i] + dataset_bytes_of(kind, first + i);
    return npy_file("<u8", offsets, count + 1, (count + 1) * sizeof offsets[0]);
}

// Files are named by the numbers of their descriptors, and patterns name a row of ten such numbers.
static int next_row = FIRST_ROW;

static void name_file(int fd, int number) {
    SIM_MUST(dup3(fd, number, O_CLOEXEC) == number);
    close(fd);
}

// `make` makes one of them. Returns the row.
static int write_files(enum dataset_kind kind,
                       int (*make)(enum dataset_kind kind, uint64_t first, uint64_t count)) {
    const struct dataset_plan *plan = &dataset_plans[kind];
    const int row = next_row++;
    uint64_t first = 0;
    if (!plan->files)
        name_file(make(kind, 0, plan->samples), row * 10);
    for (int i = 0; plan->files && plan->files[i]; i++) {
        name_file(make(kind, first, plan->files[i]), row * 10 + i);
        first += plan->files[i];
    }
    SIM_MUST(!plan->files || first == plan->samples);
    return row;
}

// ---- The configuration -------------------------------------------------------------------------------------

static const char *on_error(enum dataset_kind kind) {
    switch (kind) {
    case DATASET_LARGE:
    case DATASET_UNEVEN:
        return "skip";
    case DATASET_REPLACED:
    case DATASET_PATCHED:
        return "replace";
    default:
        return "fail";
    }
}

static void write_dataset(int fd, enum dataset_kind kind) {
    const struct dataset_plan *plan = &dataset_plans[kind];
    dprintf(fd, "[dataset %s]\nformat = records\non_error = %s\npath = /proc/self/fd/%d?\n", plan->name,
            on_error(kind), write_files(kind, data_file));
    dprintf(fd, "shuffle_window = %" PRIu64 "\n", plan->view.window);
    if (plan->sample_bytes)
        dprintf(fd, "record_bytes = %" PRIu64 "\nfield.x = u8[%" PRIu64 "] @ 0\n", plan->sample_bytes,
                plan->sample_bytes);
    else
        dprintf(fd, "field.x = u8\noffsets = /proc/self/fd/%d?\n", write_files(kind, offsets_file));
}

static void write_view(int fd, const struct dataset_plan *plan) {
    const struct reference_view *view = &plan->view;
    struct view_numbers numbers;
    struct feed_view same = view_brought(view, &numbers);
    dprintf(fd, "[view %s]\nof = %s\n", plan->name, dataset_plans[plan->of].name);
    if (view->kind == VIEW_RANGE)
        dprintf(fd, "samples = %" PRIu64 "..%" PRIu64 "\nshuffle_window = %" PRIu64 "\n", view->first,
                view->first + view->count, view->window);
    else if (view->kind == VIEW_SPLIT)
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
    if (view.kind == VIEW_RANGE) {
        view.window = dataset_plans[of].view.window;
        view.groups = dataset_plans[of].view.groups;
    }
    view.first = view.kind <= VIEW_SPLIT ? samples / 6 * view.seed : 0;
    view.count = view.kind <= VIEW_SPLIT ? samples * 3 / 5 : samples - 6;
    view.listed = view.kind == VIEW_DRAWS && view.seed == 2 ? samples * 3 / 5 : 0;
    return view;
}

// A bound of a part is a number of millionths, of which the daemon takes as many samples as are whole.
static uint32_t bound(uint64_t sample, uint64_t of) {
    return (uint32_t)divide_up(sample * MILLIONTHS, of);
}

static struct feed_view list_of(const struct reference_view *view, uint64_t count,
                                struct view_numbers *memory) {
    for (uint64_t i = 0; i < count; i++)
        memory->indices[i] = (uint16_t)reference_listed(view, i);
    return (struct feed_view){.bytes = sizeof(struct feed_view),
                              .kind = FEED_INDICES,
                              .data = memory->indices,
                              .count = count,
                              .dtype = FEED_U16};
}

static struct feed_view draws_of(const struct reference_view *view, struct view_numbers *memory) {
    for (uint64_t i = 0; i < view->of; i++)
        memory->weights[i] = (float)reference_weight(view, i);
    memory->part = list_of(view, view->listed, memory);
    return (struct feed_view){.bytes = sizeof(struct feed_view),
                              .kind = FEED_WEIGHTS,
                              .data = memory->weights,
                              .count = view->of,
                              .dtype = FEED_F32,
                              .epoch_samples = view->count,
                              .part = view->listed ? &memory->part : NULL};
}

struct feed_view view_brought(const struct reference_view *view, struct view_numbers *memory) {
    switch (view->kind) {
    case VIEW_RANGE:
    case VIEW_SPLIT:
        return (struct feed_view){.bytes = sizeof(struct feed_view),
                                  .kind = (enum feed_view_kind)view->kind,
                                  .begin = bound(view->first, view->of),
                                  .end = bound(view->first + view->count, view->of),
                                  .seed = view->kind == VIEW_SPLIT ? view->seed : 0};
    case VIEW_LIST:
        return list_of(view, view->count, memory);
    default:
        return draws_of(view, memory);
    }
}
