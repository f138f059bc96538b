#include "tests/simulate/storage.h"

#include <string.h>

#include "order/order.h"
#include "tests/simulate/defects.h"

enum quality storage_quality(enum dataset_kind dataset, uint64_t sample) {
    uint64_t chance = sim_scatter(sim.seed ^ sample << 32) % 1000;
    if (dataset == DATASET_SMALL)
        return SAMPLE_GOOD;
    if (dataset == DATASET_STRICT)
        return chance < plan.bad / 20 ? SAMPLE_BAD : SAMPLE_GOOD;
    if (chance < plan.bad)
        return SAMPLE_BAD;
    return chance < plan.bad + plan.flaky ? SAMPLE_FLAKY : SAMPLE_GOOD;
}

uint64_t storage_latency(void) {
    if (sim_fault(plan.stucks))
        return NEVER;
    if (sim_fault(plan.hiccups))
        return sim_between(50, 1500) * NS_PER_MS;
    return sim_between(plan.read_us_least, plan.read_us_most) * NS_PER_US;
}

void storage_samples(const struct ring *ring, const struct ring_claim *claim, uint64_t samples[CLAIM_MOST]) {
    struct order order;
    const struct ring_header *header = ring->header;
    SIM_MUST(claim->count <= CLAIM_MOST);
    order_init(&order, (enum order_version)header->order_version, header->samples, header->seed,
               claim->epoch);
    order_samples(&order, claim->first_position, claim->count, samples);
}

void storage_write(const struct ring *ring, const struct ring_claim *claim,
                   const uint64_t samples[CLAIM_MOST], bool second) {
    const uint64_t bytes = ring->header->fields[0].sample_bytes;
    uint8_t *data = ring_slot_data(ring, claim->slot) + claim->first_sample * bytes;
    for (uint32_t i = 0; i < claim->count; i++, data += bytes) {
        uint64_t word = reference_word(samples[i]);
        bool lies = defect_is(DEFECT_LYING_STORAGE) && sim_fault(2);
        word = second != lies ? ~word : word;
        memcpy(data + (second ? sizeof word : 0), &word, sizeof word);
    }
}

bool storage_is_right(const uint8_t *bytes, uint64_t sample) {
    uint64_t words[2];
    memcpy(words, bytes, sizeof words);
    return words[0] == reference_word(sample) && words[1] == ~words[0];
}
