// How far an index is that is being built. Written by the threads that build it, read by others; a reader may see words
// of different moments, which is good enough for people.
#ifndef FEEDD_DAEMON_DATASET_INDEX_PROGRESS_H
#define FEEDD_DAEMON_DATASET_INDEX_PROGRESS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/time.h"

// Every word is written by the threads that build the index, relaxed.
struct index_progress {
    _Atomic uint64_t started_ns; // 0: no index is being built
    _Atomic uint64_t files, files_done;
    _Atomic uint64_t bytes, bytes_done; // of the files, whether they are read or passed over
};

// All of these do nothing if `progress` is NULL.
static inline void index_progress_begin(struct index_progress *progress, uint64_t files, uint64_t bytes) {
    if (!progress)
        return;
    atomic_store_explicit(&progress->files_done, 0, memory_order_relaxed);
    atomic_store_explicit(&progress->bytes_done, 0, memory_order_relaxed);
    atomic_store_explicit(&progress->files, files, memory_order_relaxed);
    atomic_store_explicit(&progress->bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&progress->started_ns, monotonic_ns(), memory_order_relaxed);
}

static inline void index_progress_bytes(struct index_progress *progress, uint64_t bytes) {
    if (progress)
        atomic_fetch_add_explicit(&progress->bytes_done, bytes, memory_order_relaxed);
}

static inline void index_progress_file(struct index_progress *progress) {
    if (progress)
        atomic_fetch_add_explicit(&progress->files_done, 1, memory_order_relaxed);
}

static inline void index_progress_end(struct index_progress *progress) {
    if (progress)
        atomic_store_explicit(&progress->started_ns, 0, memory_order_relaxed);
}

#endif
