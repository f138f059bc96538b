// How much of a dataset lies in the page cache, and which reader `io = auto` uses for it.
#ifndef FEEDD_DAEMON_LOADER_READ_RESIDENCY_H
#define FEEDD_DAEMON_LOADER_READ_RESIDENCY_H

#include "base/scope.h"
#include "daemon/dataset/dataset.h"
#include "daemon/io_mode.h"

enum residency_method {
    RESIDENCY_CACHESTAT, // cachestat(2), Linux 6.5
    RESIDENCY_NOWAIT, // preadv2 with RWF_NOWAIT: what is not available at once is not resident. Asking may start the
                      // read, so the data looks a little warmer over time
    RESIDENCY_NONE, // neither works here; everything counts as absent
};

// Not mincore(2): it calls everything resident in a file that the caller neither owns nor may write.
struct residency_probe {
    uint64_t random; // any value at the start
    enum residency_method method;
};

// Probes a few dozen random places in all files (file i is descriptor first_fd + i): the fraction of them that is
// resident, 0..1. Takes less than a millisecond; never waits for storage. Files opened for O_DIRECT count as absent
// where cachestat is missing.
double residency_sample(const struct dataset_layout *layout, int first_fd, struct residency_probe *probe);

// Decides between io_uring and the mapped reader, slowly: it switches to maps when nearly everything is resident, and
// back when a good part is not, or when faults had to wait for storage, which stops a whole loader.
struct residency_policy {
    enum io_mode mode; // IO_URING or IO_MAPPED
    uint64_t major_faults;
    uint64_t updated_ns;
    uint64_t barred_until_ns; // no maps until then, after a burst of faults
    uint64_t bar_ns;
};

void residency_policy_init(struct residency_policy *policy, uint64_t major_faults, uint64_t now_ns);

// About once a second. `major_faults` is getrusage's ru_majflt. Pure.
enum io_mode residency_policy_update(struct residency_policy *policy, double fraction, uint64_t major_faults,
                                     uint64_t now_ns);

#endif
