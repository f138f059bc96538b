// The datasets being served: those that a configuration declares, opened.
#ifndef FEEDD_DAEMON_SUPERVISOR_DATASETS_H
#define FEEDD_DAEMON_SUPERVISOR_DATASETS_H

#include <stdatomic.h>

#include "base/error.h"
#include "daemon/config/change_lines.h"
#include "daemon/dataset/index_progress.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/supervisor.h"

// What another thread may read meanwhile.
struct datasets_opening {
    // One more than the number of the dataset that is being opened; 0: none yet. Stored with release: a thread that has
    // seen it may read the configuration.
    _Atomic uint64_t number_plus_1;
    struct index_progress index; // of that dataset
};

// Opens all datasets of a configuration, or none. May wait for storage. `opening` may be NULL.
int datasets_open(const struct config *config, struct dataset ***datasets, struct datasets_opening *opening,
                  struct error *error);
// The same, without those whose index has to be built, and views and mixes of these: they are NULL.
int datasets_open_known(const struct config *config, struct dataset ***datasets, struct error *error);
// Whether all sources of the mix with that number are there.
bool datasets_has_sources(const struct config *config, struct dataset *const *datasets, size_t mix);
// Gives back references. With the last one to a dataset, `closer` closes its files: there may be 65,536, and one may be
// on a server that does not answer. NULL: this thread closes them.
void datasets_close(struct dataset **datasets, size_t count, struct closer *closer);
void datasets_release(struct dataset *dataset, struct closer *closer);

// The number of the dataset of that name: its index in the configuration, and in supervisor->datasets, where it is NULL
// while its index is not built (indexing.h). False: there is none.
bool datasets_find(const struct supervisor *supervisor, const char *name, size_t *number);

// Adds a line for each that has another number of samples than the one of that name that is being served.
void datasets_describe_changes(const struct supervisor *supervisor, const struct config *config,
                               struct dataset *const *datasets, struct change_lines *lines);

#endif
