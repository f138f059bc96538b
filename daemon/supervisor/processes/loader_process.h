// A loader process as the supervisor sees it: what it is given, its record in the statistics, its end.
#ifndef FEEDD_DAEMON_SUPERVISOR_PROCESSES_LOADER_PROCESS_H
#define FEEDD_DAEMON_SUPERVISOR_PROCESSES_LOADER_PROCESS_H

#include <sys/queue.h>

#include "base/error.h"
#include "daemon/dataset/dataset.h"
#include "daemon/heritage.h"
#include "daemon/supervisor/processes/process.h"
#include "daemon/supervisor/processes/respawn.h"
#include "shm/block_share.h"
#include "shm/stats.h"

// GONE only once the life pipe has ended too: until then the kernel may be finishing reads of its io_uring into the
// ring, and its chunks must not be taken back.
struct loader_process {
    struct process process;
    LIST_ENTRY(loader_process) link; // its owner's
    uint32_t serial;                 // its owner number in the ring
    uint32_t share_arena;            // where it decodes; from share.arenas on, it shares no blocks
    uint64_t retired_ns;             // it is to end when it has filled what it has claimed; 0: not
    uint32_t stripe;                 // of each slot's chunks, that it claims first
    struct stats_loader *record;
    uint64_t bad_heard, bad_totals[BAD_FATES]; // of what the record says, how much has been taken over
    int assignment_fd; // of one that is prepared and has no feed yet (loader_prepared.h); -1: any other
    struct prepared_settings prepared_for;
    uint64_t offered;               // the last memory that it was sent while it had none; 0: none
    bool left_behind;               // it was killed and does not end: what it was reading is read by others
    _Atomic uint64_t *record_owner; // the word that says whose record it is
};

struct condemned;

// Of a cache of decoded images; -1 each: there is none.
struct cache_fds {
    int memory, file;
};

struct loader_start {
    struct process_set *processes;
    struct poll_set *poll_set;
    struct stats_region *stats;
    int stats_fd;
    const struct dataset *dataset;
    uint64_t feed; // its id
    int ring_fd, event_fd;
    uint32_t serial;                      // the owner number it gets; never given twice in one ring
    const struct block_share_plan *share; // zeros: no blocks are shared
    int share_fd;
    uint32_t share_arena; // which no other loader has that is not GONE; from share->arenas on: it shares none
    const struct cache_fds *caches; // of the dataset, or of each source of a mix
    uint32_t stripe, stripes;       // which stripe of each slot's chunks it claims first, of how many
    uint32_t queue_depth;
    uint64_t mapped_limit;
    const struct condemned *condemned;
    struct loader_process *prepared; // becomes that loader, if it takes the descriptors; NULL: there is none
    const struct mix_run *mix;       // of a mix: the run; else zeros
    bool mix_shuffle;                // ... and whether its sources are shuffled
    bool gpu_images;                 // those that a GPU can make are made there
    void *owner;
    void (*changed)(struct process *process); // see process.h
};

extern const struct respawn_policy loader_respawn_policy;

// How many numbers of descriptors the loaders of a dataset have, from 0 on.
uint32_t loader_process_numbers(const struct dataset *dataset);

// *started is start->prepared, if that could take the descriptors; else it remains as it was.
int loader_process_start(const struct loader_start *start, struct loader_process **started,
                         struct error *error);

// For `closed` of a loader's process.
void loader_process_free(struct process *process);

// Ends its life as an object, when it is GONE and its chunks have been taken back: moves its counters to the feed's
// record, so that a reader sees them in one place or the other but never twice, and gives back its own record and the
// memory. The caller has taken it off its list.
void loader_process_retire(struct loader_process *loader, struct stats_feed *feed);

// It has read samples, or was ready to read and had nothing to do (`idle`), so it did not fail to start.
bool loader_process_has_worked(const struct loader_process *loader, bool idle);

// Its oldest read that has not come back.
struct loader_read {
    uint32_t file; // index in the dataset
    uint64_t age_ns;
};

// False: there is none. The loader itself says so, so it need not be true, but the file's number is less than
// `file_numbers`, and the read is not older than the process.
bool loader_process_read(const struct loader_process *loader, uint64_t file_numbers, uint64_t now,
                         struct loader_read *read);

// The sample that it said it was working on in a slow stage when it died or was killed: false, it said none.
bool loader_process_staged(const struct loader_process *loader, uint64_t *sample);

// How long it has not moved.
uint64_t loader_process_silent_ns(const struct loader_process *loader, uint64_t now);

static inline struct loader_process *loader_process_of(struct process *process) {
    return (struct loader_process *)((char *)process - offsetof(struct loader_process, process));
}

#endif
