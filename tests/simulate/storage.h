// Simulated storage: how long reads take, which samples cannot be read, and what arrives in memory when.
#ifndef FEEDD_TESTS_SIMULATE_STORAGE_H
#define FEEDD_TESTS_SIMULATE_STORAGE_H

#include "shm/ring_loader.h"
#include "tests/simulate/plan.h"

enum quality {
    SAMPLE_GOOD,
    SAMPLE_FLAKY, // sometimes it cannot be read
    SAMPLE_BAD
};
enum quality storage_quality(enum dataset_kind dataset, uint64_t sample);

// How long a read takes; NEVER: it does not come back.
uint64_t storage_latency(void);

#define CLAIM_MOST 16u // samples of a claim

// The numbers of a claim's samples.
void storage_samples(const struct ring *ring, const struct ring_claim *claim, uint64_t samples[CLAIM_MOST]);

// Half of the bytes of a claim's samples arrives in the slot: the first half, or the second.
void storage_write(const struct ring *ring, const struct ring_claim *claim,
                   const uint64_t samples[CLAIM_MOST], bool second);

// The sample has the bytes that it should have.
bool storage_is_right(const uint8_t *bytes, uint64_t sample);

#endif
