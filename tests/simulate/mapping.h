// A ring as its simulated loaders see it: mapped once for all of them, with what they know of its dataset.
#ifndef FEEDD_TESTS_SIMULATE_MAPPING_H
#define FEEDD_TESTS_SIMULATE_MAPPING_H

#include "daemon/supervisor/feeds/served_feed.h"
#include "order/sampler.h"
#include "shm/ring_loader.h"
#include "tests/simulate/places.h"
#include "tests/simulate/plan.h"

#define CLAIM_MOST 16u // samples of a claim, and of a batch

struct mapping {
    LIST_ENTRY(mapping) link;
    struct ring ring;
    const struct ring_control *control; // as the supervisor has it mapped
    ino_t file;                         // of the ring
    enum dataset_kind stored;
    bool brought; // its view is a client's
    struct dataset *dataset;
    struct dataset_list *list; // of a view, mapped
    struct sampler sampler;
    uint64_t first_epoch; // that was claimed, for DEFECT_DRAWS_RESTART
    bool claimed;
    struct places *places;
    uint32_t references;
};

void mappings_begin(void);

// The mapping of a feed's ring, of which `fd` is a descriptor.
struct mapping *mapping_get(const struct served_feed *feed, int fd);
void mapping_put(struct mapping *mapping);

// A chunk that has been claimed: the stored samples that it wants, and where in the slot.
struct claimed {
    struct ring_claim claim;
    uint64_t samples[CLAIM_MOST], places[CLAIM_MOST];
};

// Finds them, with the loader's own code.
void mapping_find(struct mapping *mapping, struct claimed *claimed);

// With ragged fields: the number of the attempt to replace sample `i` of the claim, as the supervisor has written it
// into the ring. 0: none.
uint32_t mapping_attempt(const struct mapping *mapping, const struct ring_claim *claim, uint32_t i);

// Puts the sample in the place of number `i` that the order names for this attempt.
void mapping_replace(const struct mapping *mapping, struct claimed *claimed, uint32_t i, uint32_t attempt);

#endif
