// The memory of indices that this process has open. Datasets with equal indices share one: the views of a dataset, and
// a dataset before and after a reload. Any thread may call these functions.
#ifndef FEEDD_DAEMON_DATASET_INDEX_MEMORY_H
#define FEEDD_DAEMON_DATASET_INDEX_MEMORY_H

#include <stdint.h>

// Registers an index in sealed memory, with a hash of it. If there is an equal one, *fd becomes a descriptor of that,
// and its own memory is freed. Never fails: without memory or descriptors to spare, the index is not shared.
void index_memory_share(int *fd, uint64_t bytes, uint64_t hash);

// Before a descriptor that was passed to index_memory_share is closed. Frees no index: that is left to the close.
void index_memory_release(int fd);

#endif
