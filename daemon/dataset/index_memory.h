// The memory of indices that this process has open. Datasets whose indices are equal share one: those of the views of a
// dataset, and of a dataset before and after a reload. Functions may be called by any thread.
#ifndef FEEDD_DAEMON_DATASET_INDEX_MEMORY_H
#define FEEDD_DAEMON_DATASET_INDEX_MEMORY_H

#include <stdint.h>

// Takes note of an index in sealed memory, of which `hash` is a hash. If there is an equal one, *fd becomes a
// descriptor of that, and the memory that it was is freed. Nothing fails: without memory or descriptors to spare, the
// index is not shared.
void index_memory_share(int *fd, uint64_t bytes, uint64_t hash);

// Before a descriptor that was passed to index_memory_share is closed. Frees no index: that is left to the close.
void index_memory_release(int fd);

#endif
