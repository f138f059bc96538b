#include "daemon/dataset/derived.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define FINGERPRINT_VERSION 1u

static const char *kind_name(uint32_t kind) {
    switch (kind) {
    case SELECTION_LIST:
        return "indices";
    case SELECTION_WEIGHTED_1:
        return "weights";
    default:
        return "split";
    }
}

// The weights are not hashed: a run continues after they have changed.
static uint64_t fingerprint(uint64_t base, const struct selection *selection, uint64_t chosen_hash) {
    const uint64_t seed = selection->kind == SELECTION_WEIGHTED_1 ? chosen_hash : selection->seed;
    const uint64_t words[] = {FINGERPRINT_VERSION, base, selection->kind, selection->of, selection->first,
                              selection->count,    seed};
    return selection->kind == SELECTION_ALL ? base : XXH3_64bits(words, sizeof words);
}

static size_t layout_bytes(const struct dataset_layout *layout) {
    return sizeof *layout + layout->file_count * sizeof *layout->files;
}

uint64_t derived_bytes(const struct dataset *base) {
    return sizeof *base + layout_bytes(base->layout);
}

static void borrow(struct dataset *derived, struct dataset *base) {
    derived->format = base->format;
    derived->io = base->io;
    derived->io_direct = base->io_direct;
    derived->io_delay_us = base->io_delay_us;
    derived->on_error = base->on_error;
    memcpy(derived->transforms, base->transforms, sizeof derived->transforms);
    memcpy(derived->sizes, base->sizes, sizeof derived->sizes);
    memcpy(derived->size_tables, base->size_tables, sizeof derived->size_tables);
    derived->incomplete = base->incomplete;
    derived->index = base->index;
    derived->cache_path = base->cache_path;
    derived->paths = base->paths;
    derived->fds = base->fds;
    derived->index_fd = base->index_fd;
    derived->brought = true;
    derived->base = dataset_ref(base);
}

// As for views of feedd.conf.
static bool has_groups(uint32_t kind) {
    return kind == SELECTION_ALL || kind == SELECTION_RANGE;
}

struct dataset *derived_open(struct dataset *base, const struct selection *selection, uint64_t chosen_hash,
                             int list_fd) {
    struct dataset *derived = calloc(1, sizeof *derived);
    if (!derived)
        return NULL;
    derived->references = 1;
    derived->list_fd = derived->parts_fd = -1;
    derived->of = strdup(base->name);
    derived->layout = malloc(layout_bytes(base->layout));
    if (asprintf(&derived->name, "%s:%s", base->name, kind_name(selection->kind)) < 0)
        derived->name = NULL;
    if (derived->layout)
        memcpy(derived->layout, base->layout, layout_bytes(base->layout));
    borrow(derived, base);
    if (!derived->of || !derived->name || !derived->layout) {
        dataset_unref(derived);
        return NULL;
    }
    if (!has_groups(selection->kind))
        derived->layout->window = derived->layout->groups = 0;
    else if (list_fd < 0 && base->list_fd >= 0 && (list_fd = fcntl(base->list_fd, F_DUPFD_CLOEXEC, 0)) < 0) {
        dataset_unref(derived);
        return NULL;
    }
    derived->layout->samples = selection->count;
    derived->layout->selection = *selection;
    derived->layout->fingerprint = fingerprint(base->layout->fingerprint, selection, chosen_hash);
    derived->list_fd = list_fd;
    return derived;
}
