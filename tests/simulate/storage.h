// Simulated storage: how long reads take, which samples cannot be read, and what arrives in memory when.
#ifndef FEEDD_TESTS_SIMULATE_STORAGE_H
#define FEEDD_TESTS_SIMULATE_STORAGE_H

#include "tests/simulate/mapping.h"

enum quality {
    SAMPLE_GOOD,
    SAMPLE_FLAKY, // sometimes it cannot be read
    SAMPLE_BAD
};
// Of a stored sample.
enum quality storage_quality(enum dataset_kind stored, uint64_t sample);

// How long a read takes; NEVER: it does not come back.
uint64_t storage_latency(void);

// Of a claim, the bytes of samples first..first+count-1 arrive in the slot: the first half, or the second.
struct piece {
    uint32_t first, count;
    bool second;
};
void storage_write(const struct mapping *mapping, const struct claimed *claimed, const struct piece *piece);

// ---- What a client gets ------------------------------------------------------------------------------------

// The samples of a batch, as they are stored, and where they lie.
struct contents {
    enum dataset_kind stored;
    const uint8_t *data;
    const int64_t *offsets; // of a ragged field; else NULL
    uint64_t bytes;         // of all samples
    uint64_t count, samples[CLAIM_MOST];
};

// Each has the bytes that it should have, and lies where it should.
bool storage_is_right(const struct contents *contents);

#endif
