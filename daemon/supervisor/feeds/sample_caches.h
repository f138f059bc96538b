// The caches of decoded images (shm/sample_cache.h) that feeds use: one for each dataset, user and key. It is made
// for the first feed that needs it and kept as long as a dataset that is served has its key. Loaders of one user's
// feeds alone can write to it, so what one that has been taken over writes reaches nobody else; of a mix, they have
// the caches of its sources. It is not part of ring_memory, since it is neither pinned nor allocated before it is used:
// all caches together have cache_memory (cache_room.h), and one that no feed uses makes way for another.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_SAMPLE_CACHES_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_SAMPLE_CACHES_H

#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/processes/loader_process.h"

// Finds or makes the caches of the feed's dataset, or of its sources. One with a file is opened in a thread. If a cache
// is not to be had, samples are decoded each time, and the log says why. Tries again what failed for a lack.
void sample_caches_begin(struct served_feed *feed);

// Whether loaders can start: none is still being opened, or storage has not answered for loader_timeout. Loaders that
// start earlier do without.
bool sample_caches_are_ready(const struct served_feed *feed, uint64_t now);

// What loaders that start now get: fds[i] of source i of a mix, fds[0] of any other dataset. There is room for
// MIX_MAX_SOURCES.
void sample_caches_fds(const struct served_feed *feed, struct cache_fds *fds);

// No loader of the feed is left.
void sample_caches_end(struct served_feed *feed);

// Bytes that are taken in the caches of a dataset, of that user or CACHES_OF_ANYBODY.
#define CACHES_OF_ANYBODY ((uid_t)-1)
uint64_t sample_caches_used(const struct supervisor *supervisor, const struct dataset *dataset, uid_t user);

// Of all caches: bytes that have been written to, bytes that count towards cache_memory, and that.
struct cache_memory {
    uint64_t taken, counted, limit;
};
struct cache_memory sample_caches_memory(const struct supervisor *supervisor);

// Gives back those that neither a feed nor a dataset needs any more.
void sample_caches_tick(struct supervisor *supervisor);

// Leaves those that are being opened to their threads: the daemon ends.
void sample_caches_leave(struct supervisor *supervisor);

#endif
