// What a loader inherits as memory and maps for reading (daemon/heritage.h).
#ifndef FEEDD_DAEMON_LOADER_INHERITED_H
#define FEEDD_DAEMON_LOADER_INHERITED_H

#include "base/error.h"
#include "daemon/heritage.h"

int inherited_settings(const struct loader_settings **settings, struct error *error);

// The list of the dataset, and its index; *list and *index stay as they are if it has none.
int inherited_list(const struct loader_settings *settings, const uint64_t **list, struct error *error);
int inherited_index(const struct loader_settings *settings, const uint8_t **index, struct error *error);

#endif
