// A ring as its simulated loaders see it: mapped once for all of them.
#ifndef FEEDD_TESTS_SIMULATE_MAPPING_H
#define FEEDD_TESTS_SIMULATE_MAPPING_H

#include "daemon/supervisor/feeds/served_feed.h"
#include "tests/simulate/plan.h"

struct mapping {
    LIST_ENTRY(mapping) link;
    struct ring ring;
    const struct ring_control *control; // as the supervisor has it mapped
    enum dataset_kind dataset;
    uint32_t references;
};

void mappings_begin(void);

// The mapping of a feed's ring, of which `fd` is a descriptor.
struct mapping *mapping_get(const struct served_feed *feed, int fd);
void mapping_put(struct mapping *mapping);

#endif
