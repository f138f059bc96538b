// The datasets being served: those that a configuration declares, opened.
#ifndef FEEDD_DAEMON_SUPERVISOR_DATASETS_H
#define FEEDD_DAEMON_SUPERVISOR_DATASETS_H

#include <stdatomic.h>

#include "base/error.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/supervisor.h"

// Opens all datasets of a configuration, or none. May wait for storage. Meanwhile *opening (unless it is NULL), which
// another thread may read, is the place of the dataset that it is opening, counted from 1. Stored with release: whoever
// sees it may read the configuration.
int datasets_open(const struct config *config, struct dataset ***datasets, _Atomic uint64_t *opening,
                  struct error *error);
// Gives back references. With the last one to a dataset, `closer` closes its files: there may be 65,536, and one may be
// on a server that does not answer. NULL: this thread closes them.
void datasets_close(struct dataset **datasets, size_t count, struct closer *closer);
void datasets_release(struct dataset *dataset, struct closer *closer);

// The place of the dataset of that name among supervisor->datasets, which are in the order of the configuration's.
// False: there is none.
bool datasets_find(const struct supervisor *supervisor, const char *name, size_t *index);

#endif
