#include "daemon/supervisor/datasets.h"

#include <string.h>

#include "base/error.h"
#include "daemon/source/source.h"

void datasets_release(struct dataset *dataset, struct closer *closer) {
    if (dataset->references == 1 && closer && dataset->layout) {
        uint32_t files = dataset->layout->file_count, count = files;
        closer_take(closer, 0, dataset->fds, &count);
        for (uint32_t i = 0; i < files; i++)
            dataset->fds[i] = -1;
        count = dataset->list_fd >= 0;
        closer_take(closer, 0, &dataset->list_fd, &count); // it may be large
        dataset->list_fd = -1;
        count = dataset->index_fd >= 0;
        closer_take(closer, 0, &dataset->index_fd, &count);
        dataset->index_fd = -1;
    }
    dataset_unref(dataset);
}

void datasets_close(struct dataset **datasets, size_t count, struct closer *closer) {
    for (size_t i = 0; datasets && i < count; i++)
        if (datasets[i])
            datasets_release(datasets[i], closer);
    free(datasets);
}

int datasets_open(const struct config *config, struct dataset ***datasets, _Atomic uint64_t *opening,
                  struct error *error) {
    struct dataset **opened = calloc(config->dataset_count + 1, sizeof(struct dataset *));
    if (!opened)
        return error_set(error, -ENOMEM, "out of memory");
    for (size_t i = 0; i < config->dataset_count; i++) {
        if (opening)
            atomic_store_explicit(opening, i + 1,
                                  memory_order_release); // pairs with the acquire of its reader
        int err = source_open_dataset(&config->datasets[i], &opened[i], error);
        if (err) {
            datasets_close(opened, i, NULL); // not the loop's thread, or it has not begun
            return err;
        }
    }
    *datasets = opened;
    return 0;
}

bool datasets_find(const struct supervisor *supervisor, const char *name, size_t *index) {
    for (*index = 0; *index < supervisor->dataset_count; ++*index)
        if (strcmp(supervisor->datasets[*index]->name, name) == 0)
            return true;
    return false;
}
