// What a loader maps of its heritage.
#ifndef FEEDD_DAEMON_LOADER_LOADER_HERITAGE_H
#define FEEDD_DAEMON_LOADER_LOADER_HERITAGE_H

#include "base/error.h"
#include "daemon/heritage.h"
#include "daemon/loader/job_board.h"

int loader_map_settings(const struct loader_settings **settings, struct error *error);

// The list and the index of a dataset that has them; NULL if it has none.
int loader_map_list(const struct loader_settings *settings, const uint64_t **list, struct error *error);
int loader_map_index(const struct loader_settings *settings, const uint8_t **index, struct error *error);

// Maps what the supervisor and other loaders have mapped, too, and the lists of the dataset; closes the descriptors.
// `prepared`: memory that it has mapped in advance, which is used if it has become the ring, and unmapped if not.
int loader_map_shared(struct job_board *board, struct ring_memory *prepared, struct error *error);

#endif
