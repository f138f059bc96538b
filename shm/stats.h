// The statistics region: one file beside the socket. Whoever may read it maps it read-only, without asking the
// daemon. Writers only add to their own counters; readers take no lock and compute all rates.
#ifndef FEEDD_SHM_STATS_H
#define FEEDD_SHM_STATS_H

#include <sys/types.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "shm/layout.h"

// The region's path for a socket path: "<socket>.stats".
int stats_path(const char *socket, char *path, size_t bytes);

// Supervisor: makes a new file at `path` in place of any old one, with `mode` and `group` (-1: the default). *fd
// stays open for children.
int stats_create(const char *path, uint32_t mode, gid_t group, struct stats_region **region, int *fd,
                 struct error *error);

// Loader, transfer process: maps the one record that it may write.
int stats_map_loader(int fd, uint32_t record, struct stats_loader **loader, struct error *error);
int stats_map_gpu(int fd, uint32_t record, struct stats_gpu **gpu, struct error *error);

static inline void stats_add(_Atomic uint64_t *counter, uint64_t amount) {
    // There is one writer, so a relaxed load and store are enough, and cheaper than a locked add.
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + amount, memory_order_relaxed);
}

// Loader: reports a sample that could not be read.
struct bad_report {
    uint64_t sample, offset;
    uint32_t file, code, fate; // enum bad_fate
    bool refused;
    const char *reason; // of the stage that refused it; else NULL
};
void stats_note_bad(struct stats_loader *loader, const struct bad_report *report);

// Loader: bracket work on a sample that may end the process. False: it has ended others, and must not be tried.
bool stats_stage_begin(struct stats_loader *loader, uint64_t sample);
void stats_stage_end(struct stats_loader *loader);

// Supervisor: one more sample that is not to be tried, of fewer than STATS_CONDEMNED so far.
void stats_condemn(struct stats_loader *loader, uint64_t sample);

// "fatal", "skipped", "replaced", or "?"
const char *bad_fate_name(uint32_t fate);

// How long a process that started then has not moved, as its heartbeat says. One from the future says nothing, except
// that the process moved while the caller looked.
#define STATS_HEARTBEAT_AHEAD_NS (1 * NS_PER_S)
static inline uint64_t stats_silent_ns(const _Atomic uint64_t *heartbeat_ns, uint64_t started_ns,
                                       uint64_t now) {
    uint64_t beat = atomic_load_explicit(heartbeat_ns, memory_order_relaxed);
    if (beat < started_ns || beat > now + STATS_HEARTBEAT_AHEAD_NS)
        beat = started_ns;
    return now > beat ? now - beat : 0;
}

// The first of the region's records of a kind that is not in use, as `word`, which has 64 bits, says by being 0; NULL:
// all are. Supervisor, which alone takes and gives back records.
#define stats_find_unused(records, word)                                                                     \
    ((__typeof__(&(records)[0]))stats_unused_record(records, COUNT_OF(records), sizeof(records)[0],          \
                                                    offsetof(__typeof__((records)[0]), word)))
void *stats_unused_record(void *records, size_t count, size_t bytes, size_t word_offset);

// Bracket a rewrite of a record's names and identity (seqlock). When a GPU's record goes to another GPU, its
// counters are reset inside the bracket.
void stats_feed_write_begin(struct stats_feed *feed);
void stats_feed_write_end(struct stats_feed *feed);
void stats_gpu_write_begin(struct stats_gpu *gpu);
void stats_gpu_write_end(struct stats_gpu *gpu);

#endif
