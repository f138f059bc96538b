#include "tests/simulate/storage.h"

#include <string.h>

#include "tests/simulate/defects.h"

#define WORD sizeof(uint64_t)

enum quality storage_quality(enum dataset_kind stored, uint64_t sample) {
    uint64_t chance = sim_scatter(sim.seed ^ sample << 32) % 1000;
    switch (stored) {
    case DATASET_STRICT:
        return chance < plan.bad / 20 ? SAMPLE_BAD : SAMPLE_GOOD;
    case DATASET_PATCHED:
    case DATASET_REPLACED: // which sample replaces one is known
        return chance < plan.bad ? SAMPLE_BAD : SAMPLE_GOOD;
    case DATASET_UNEVEN:
    case DATASET_LARGE:
        if (chance < plan.bad)
            return SAMPLE_BAD;
        return chance < plan.bad + plan.flaky ? SAMPLE_FLAKY : SAMPLE_GOOD;
    default:
        return SAMPLE_GOOD;
    }
}

uint64_t storage_latency(void) {
    if (sim_fault(plan.stucks))
        return NEVER;
    if (sim_fault(plan.hiccups))
        return sim_between(50, 1500) * NS_PER_MS;
    return sim_between(plan.read_us_least, plan.read_us_most) * NS_PER_US;
}

// The bytes that a sample has: a word, and its complement behind it. A ragged one has that at its end; one of less than
// two words has the beginning of both.
struct marks {
    uint64_t first, second_at, second;
};

static struct marks marks_of(enum dataset_kind stored, uint64_t sample) {
    const uint64_t bytes = dataset_bytes_of(stored, sample);
    const uint64_t second = bytes > WORD ? min_u64(bytes - WORD, WORD) : 0;
    const bool ragged = !dataset_plans[stored].sample_bytes;
    return (struct marks){min_u64(bytes, WORD), ragged ? bytes - second : WORD, second};
}

void storage_write(const struct mapping *mapping, const struct claimed *claimed, const struct piece *piece) {
    uint8_t *slot = ring_slot_data(&mapping->ring, claimed->claim.slot);
    for (uint32_t i = piece->first; i < piece->first + piece->count; i++) {
        const struct marks marks = marks_of(mapping->stored, claimed->samples[i]);
        uint8_t *data = slot + claimed->places[i];
        uint64_t word = reference_word(claimed->samples[i]);
        bool lies = defect_is(DEFECT_LYING_STORAGE) && sim_fault(2);
        word = piece->second != lies ? ~word : word;
        if (piece->second)
            memcpy(data + marks.second_at, &word, marks.second);
        else
            memcpy(data, &word, marks.first);
    }
}

static bool sample_is_right(const uint8_t *data, enum dataset_kind stored, uint64_t sample) {
    const struct marks marks = marks_of(stored, sample);
    const uint64_t word = reference_word(sample), second = ~word;
    return memcmp(data, &word, marks.first) == 0 &&
           memcmp(data + marks.second_at, &second, marks.second) == 0;
}

bool storage_is_right(const struct contents *contents) {
    uint64_t at = 0;
    for (uint64_t i = 0; i < contents->count; i++) {
        if (contents->offsets && contents->offsets[i] != (int64_t)at)
            return false;
        if (!sample_is_right(contents->data + at, contents->stored, contents->samples[i]))
            return false;
        at += dataset_bytes_of(contents->stored, contents->samples[i]);
    }
    return at == contents->bytes && (!contents->offsets || contents->offsets[contents->count] == (int64_t)at);
}
