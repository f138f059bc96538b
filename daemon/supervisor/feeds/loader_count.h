// How many loaders a feed has with `loaders = auto`: from what its consumers and loaders spend their time on. Pure.
//
// While consumers wait for loaders that have no time to spare, more loaders are tried, for as long as that makes the
// feed faster: of loaders that wait for storage any number, of others as many as there are processors, and none if they
// do not get those that they have. While nobody waits for them, loaders that have nothing to do are taken away. What
// was tried in vain is not tried again for a while, which doubles each time.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_LOADER_COUNT_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_LOADER_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#define LOADER_COUNT_FIRST 4u  // at most, to begin with; what a feed is counted for while it is made
#define LOADER_COUNT_MOST  64u // as in feedd.conf

// Sums since the feed started. Loaders write most of them and can write anything: then their feed has a wrong number of
// loaders, but never more than `most`.
struct loader_work {
    uint64_t samples;                         // filled
    uint64_t wait_ns;                         // of consumers, for loaders
    uint64_t room_ns, io_ns, busy_ns, cpu_ns; // of loaders
};

struct loader_count {
    uint32_t wanted;
    // The window that decides next: it began then, with these sums. 0: it begins with the next look.
    uint64_t began_ns;
    struct loader_work began;
    // A number that is being tried. 0: none; else what there was before, and how fast that was.
    uint32_t before;
    double rate_before;
    uint32_t spare; // windows in a row in which loaders had nothing to do
    uint64_t not_more_until_ns, not_less_until_ns;
    uint64_t more_hold_ns, less_hold_ns; // how long the next vain attempt counts
};

// Where a feed begins on so many processors.
uint32_t loader_count_first(uint32_t processors);

void loader_count_init(struct loader_count *count, uint32_t wanted);

// With every tick, while the feed runs: returns how many loaders it is to have, of at most `most`.
uint32_t loader_count_look(struct loader_count *count, const struct loader_work *work, uint32_t consumers,
                           uint32_t processors, uint32_t most, uint64_t now);

#endif
