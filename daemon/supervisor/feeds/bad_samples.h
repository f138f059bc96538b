// Samples that could not be read, per dataset: counted, and the last ones kept. Loaders report them in their records of
// the statistics; nothing that they write there is believed without a check.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_BAD_SAMPLES_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_BAD_SAMPLES_H

#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "proto/limits.h"

#define BAD_SAMPLES_KEPT 64u // per dataset

struct bad_sample {
    uint64_t sample; // as its dataset numbers it, also in a view or a mix
    uint64_t offset;
    uint64_t at_ns;                   // since 1970
    uint32_t code;                    // positive errno
    uint32_t fate;                    // enum bad_fate
    bool refused;                     // by a stage
    bool in_folder;                   // the file is opened by its name for each read
    uid_t user;                       // whose feed wanted it
    char reason[STATS_REASON_BYTES];  // why a stage refused it, in ASCII; "": not known
    char *path;                       // of the file
    char dataset[PROTO_MAX_NAME + 1]; // of which it is a sample
};

struct bad_samples {
    LIST_ENTRY(bad_samples) link;
    char dataset[PROTO_MAX_NAME + 1]; // or view or mix
    uint64_t total[BAD_FATES];
    uint64_t count; // of those that were kept, ever; number i is in last[i % BAD_SAMPLES_KEPT]
    struct bad_sample last[BAD_SAMPLES_KEPT];
};

// Takes over what a loader of the feed has reported since the last time.
void bad_samples_hear(struct served_feed *feed, struct loader_process *loader);

// The same from all loaders of feeds over that dataset, view or mix: what they have reported is known before the next
// tick.
void bad_samples_collect(struct supervisor *supervisor, const char *dataset);

// NULL: all samples of that dataset could be read.
const struct bad_samples *bad_samples_of(const struct supervisor *supervisor, const char *dataset);

// Why a stage has refused that sample of `dataset`, the feed's or a source of it, with that error, so that the feed has
// failed. NULL: no stage has, as far as is known.
const char *bad_samples_reason(struct served_feed *feed, const struct dataset *dataset, uint64_t sample,
                               int code);

// Forgets those of datasets that the configuration does not have (any more), or of all.
void bad_samples_forget(struct supervisor *supervisor, bool all);

#endif
