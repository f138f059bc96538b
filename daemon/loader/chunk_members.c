#include "daemon/loader/chunk_members.h"

#include <string.h>

#include "base/sizes.h"

// A sample that finds a neighbour saves a read, at least 500 ns; sorting costs about 50 ns per sample.
#define SORT_PAYS_ONE_IN 8

struct sort_key {
    uint64_t sample;
    uint32_t member;
};

static int compare_keys(const void *left, const void *right) {
    uint64_t a = ((const struct sort_key *)left)->sample, b = ((const struct sort_key *)right)->sample;
    return a < b ? -1 : a > b;
}

// Of `count` random samples out of N, each can expect count * merge_window / N others close after it. The members of a
// mix have been grouped.
static bool sort_pays(const struct chunk_plan *plan, uint32_t count) {
    bool ascending = true, mixed = plan->part_count > 1;
    for (uint32_t i = 1; i < count && ascending; i++)
        ascending = mixed ? plan->samples[plan->members[i - 1]] < plan->samples[plan->members[i]]
                          : plan->samples[i - 1] < plan->samples[i];
    uint64_t near;
    if (ascending || __builtin_mul_overflow(plan->merge_window, (uint64_t)count * SORT_PAYS_ONE_IN, &near))
        return !ascending;
    return near >= plan->stored_samples;
}

// The order of samples is the order of (file, offset) in every stream.
static void sort_members(struct chunk_plan *plan, uint32_t count) {
    struct sort_key *keys = (void *)plan->requests; // free until the requests are built, and larger
    for (uint32_t i = 0; i < count; i++)
        keys[i] = (struct sort_key){plan->samples[i], i};
    qsort(keys, count, sizeof *keys, compare_keys);
    for (uint32_t i = 0; i < count; i++)
        plan->members[i] = keys[i].member;
    plan->members_sorted = true;
}

static void restore_members(struct chunk_plan *plan) {
    for (uint32_t i = 0; i < plan->capacity; i++)
        plan->members[i] = i;
    plan->members_sorted = false;
}

uint32_t chunk_find_part(const struct chunk_plan *plan, uint64_t sample) {
    uint32_t low = 0, high = plan->part_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (plan->parts[middle].first_sample <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Of a mix: brings the samples of each part together, in the order in which they stand.
static void group_members(struct chunk_plan *plan, uint32_t count) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < plan->part_count; i++)
        plan->parts[i].member_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        plan->part_of[i] = (uint16_t)chunk_find_part(plan, plan->samples[i]);
        plan->parts[plan->part_of[i]].member_count++;
    }
    for (uint32_t i = 0; i < plan->part_count; i++) {
        plan->parts[i].first_member = next;
        next += plan->parts[i].member_count;
        plan->parts[i].member_count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct chunk_part *part = &plan->parts[plan->part_of[i]];
        plan->members[part->first_member + part->member_count++] = i;
    }
}

void chunk_arrange_members(struct chunk_plan *plan, uint32_t count, bool may_sort) {
    if (plan->part_count > 1)
        group_members(plan, count);
    else
        plan->parts->member_count = count;
    if (may_sort && sort_pays(plan, count))
        sort_members(plan, count);
    else if (plan->part_count == 1 && plan->members_sorted)
        restore_members(plan);
}
