// The memory of a list: sealed when it is complete, so that loaders can map it and nobody can change it.
#ifndef FEEDD_DAEMON_DATASET_LIST_MEMORY_H
#define FEEDD_DAEMON_DATASET_LIST_MEMORY_H

#include <stdatomic.h>

#include "daemon/dataset/dataset.h"

// Empty memory: its descriptor, or a negative errno.
int list_memory_create(void);

// Allocates memory for a list of `bytes`, header included, maps it and writes its header. Everything is allocated
// before it is touched, since memory that runs out only then would end the process. Counts steps, of at most about a
// second each, in *progress, unless that is NULL. 0 or a negative errno.
int list_memory_map(int fd, uint64_t bytes, _Atomic uint64_t *progress, struct dataset_list **list);

// In steps: a fork waits while the kernel does one. Sets *list to NULL, which it may be already.
void list_memory_unmap(struct dataset_list **list, uint64_t bytes);

// Writes at an offset. 0 or a negative errno.
int list_memory_write(int fd, const void *bytes, size_t count, uint64_t offset);

// Nobody may have it mapped for writing. If a child still has, waits up to a few seconds; then -EBUSY.
int list_memory_seal(int fd);

#endif
