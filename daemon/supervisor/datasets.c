#include "daemon/supervisor/datasets.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "daemon/dataset/index_memory.h"
#include "daemon/source/mixture.h"
#include "daemon/source/source.h"

// What is a mix's own is small; its files, lists and indices belong to its sources.
static void release_mix(struct dataset *mix, struct closer *closer) {
    for (uint32_t i = 0; i < mix->layout->part_count; i++)
        datasets_release(mix->sources[i], closer);
    mix->layout->part_count = 0;
    dataset_unref(mix);
}

static void release_files(struct dataset *dataset, struct closer *closer) {
    uint32_t files = dataset->layout->file_count, count = files;
    closer_take(closer, 0, dataset->fds, &count);
    for (uint32_t i = 0; i < files; i++)
        dataset->fds[i] = -1;
    count = dataset->index_fd >= 0;
    index_memory_release(dataset->index_fd);
    closer_take(closer, 0, &dataset->index_fd, &count);
    dataset->index_fd = -1;
}

void datasets_release(struct dataset *dataset, struct closer *closer) {
    const bool last = dataset->references == 1;
    if (last && dataset->sources) {
        release_mix(dataset, closer);
        return;
    }
    struct dataset *base = last && dataset->base ? dataset_ref(dataset->base) : NULL;
    if (last && closer && dataset->layout) {
        uint32_t count = dataset->list_fd >= 0;
        if (!base)
            release_files(dataset, closer);
        closer_take(closer, 0, &dataset->list_fd, &count); // it may be large
        dataset->list_fd = -1;
    }
    dataset_unref(dataset);
    if (base)
        datasets_release(base, closer);
}

void datasets_close(struct dataset **datasets, size_t count, struct closer *closer) {
    for (size_t i = 0; datasets && i < count; i++)
        if (datasets[i])
            datasets_release(datasets[i], closer);
    free(datasets);
}

bool datasets_has_sources(const struct config *config, struct dataset *const *datasets, size_t mix) {
    const struct dataset_config *of = &config->datasets[mix];
    bool all = true;
    for (size_t i = 0; i < of->source_count; i++)
        all &= datasets[of->source_numbers[i]] != NULL;
    return all;
}

// Views need their dataset to be open, and mixes need both.
static uint32_t round_of(const struct dataset_config *config) {
    return config->mix ? 2 : config->view ? 1 : 0;
}

static int open_one(const struct config *config, size_t i, struct source_index *index,
                    struct dataset **opened, struct error *error) {
    const struct dataset_config *of = &config->datasets[i];
    if (of->mix)
        return datasets_has_sources(config, opened, i) ? mixture_open(of, opened, &opened[i], error) : 0;
    index->base = of->view ? opened[of->of_number] : NULL;
    if (of->view && !index->base)
        return 0; // its dataset is not open either
    int err = source_open_indexed(of, index, &opened[i], error);
    return index->known_only && err == -EINPROGRESS ? 0 : err;
}

static int open_all(const struct config *config, bool known_only, struct datasets_opening *opening,
                    struct dataset ***datasets, struct error *error) {
    struct source_index index = {known_only, opening ? &opening->index : NULL, NULL};
    struct dataset **opened = calloc(config->dataset_count + 1, sizeof(struct dataset *));
    if (!opened)
        return error_set(error, -ENOMEM, "out of memory");
    int err = 0;
    for (uint32_t round = 0; round <= 2; round++)
        for (size_t i = 0; i < config->dataset_count && !err; i++) {
            if (round_of(&config->datasets[i]) != round)
                continue;
            if (opening)
                atomic_store_explicit(&opening->number_plus_1, i + 1,
                                      memory_order_release); // pairs with the acquire of its reader
            err = open_one(config, i, &index, opened, error);
        }
    if (err) {
        datasets_close(opened, config->dataset_count, NULL); // not the loop's thread, or it has not begun
        return err;
    }
    *datasets = opened;
    return 0;
}

int datasets_open(const struct config *config, struct dataset ***datasets, struct datasets_opening *opening,
                  struct error *error) {
    return open_all(config, false, opening, datasets, error);
}

int datasets_open_known(const struct config *config, struct dataset ***datasets, struct error *error) {
    return open_all(config, true, NULL, datasets, error);
}

bool datasets_find(const struct supervisor *supervisor, const char *name, size_t *number) {
    for (*number = 0; *number < supervisor->dataset_count; ++*number)
        if (strcmp(supervisor->config->datasets[*number].name, name) == 0)
            return true;
    return false;
}

void datasets_describe_changes(const struct supervisor *supervisor, const struct config *config,
                               struct dataset *const *datasets, struct change_lines *lines) {
    for (size_t i = 0, number; i < config->dataset_count; i++) {
        const struct dataset_config *of = &config->datasets[i];
        const bool found = datasets_find(supervisor, of->name, &number);
        const struct dataset *old = found ? supervisor->datasets[number] : NULL, *new = datasets[i];
        if (old && new && old->layout->samples != new->layout->samples)
            change_lines_add(
                lines, "%s %s: %" PRIu64 " samples (was %" PRIu64 "); feeds in use keep the old version",
                config_kind(of), of->name, new->layout->samples, old->layout->samples);
    }
}
