#include "order/mix_plan.h"

#include <errno.h>
#include <string.h>

#include "base/sizes.h"
#include "order/mix.h"

// ---- sources

static int compare_keys(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

// The lightest sources are light while their draws can be listed; of those with the same weight, the last one first.
static void split_sources(struct mix_plan *plan, uint32_t listed) {
    uint64_t keys[MIX_MAX_SOURCES];
    for (uint32_t i = 0; i < plan->sources; i++)
        keys[i] = (uint64_t)plan->weights[i] * MIX_MAX_SOURCES + (MIX_MAX_SOURCES - 1 - i);
    qsort(keys, plan->sources, sizeof *keys, compare_keys);
    for (uint32_t i = 0; i < plan->sources; i++) {
        const uint64_t weight = keys[i] / MIX_MAX_SOURCES;
        const uint8_t source = (uint8_t)(MIX_MAX_SOURCES - 1 - keys[i] % MIX_MAX_SOURCES);
        if (plan->heavy_count == 0 && plan->light_total + weight <= listed) {
            plan->light[plan->light_count++] = source;
            plan->light_total += weight;
        } else {
            plan->heavy[plan->heavy_count++] = source;
        }
    }
}

static uint32_t common_factor(uint32_t left, uint32_t right) {
    while (right) {
        const uint32_t rest = left % right;
        left = right;
        right = rest;
    }
    return left;
}

int mix_plan_make(const uint32_t *weights, uint32_t sources, uint32_t listed, struct mix_plan *plan,
                  struct error *error) {
    if (sources < 1 || sources > MIX_MAX_SOURCES)
        return error_set(error, -EINVAL, "found %u sources in a mix, wanted 1 to %u", sources,
                         MIX_MAX_SOURCES);
    *plan = (struct mix_plan){.sources = sources};
    uint32_t factor = 0;
    for (uint32_t i = 0; i < sources; i++) {
        if (weights[i] == 0)
            return error_set(error, -EINVAL, "found weight 0 for source %u, wanted at least 1", i);
        factor = common_factor(factor, weights[i]);
    }
    for (uint32_t i = 0; i < sources; i++) {
        plan->weights[i] = weights[i] / factor;
        plan->total += plan->weights[i];
    }
    if (plan->total > MIX_MAX_TOTAL)
        return error_set(error, -ERANGE, "found weights with a total of %llu, wanted at most %u",
                         (unsigned long long)plan->total, MIX_MAX_TOTAL);
    split_sources(plan, listed);
    return 0;
}

// ---- light slots

uint64_t mix_plan_light_slot(const struct mix_plan *plan, uint64_t number) {
    return plan->light_count ? (2 * number + 1) * plan->total / (2 * plan->light_total) : UINT64_MAX;
}

// slot * light_total / total, rounded to the nearest, halves down.
uint64_t mix_plan_light_before(const struct mix_plan *plan, uint64_t slot) {
    const uint64_t twice = 2 * slot * plan->light_total;
    return twice > plan->total ? divide_up(twice - plan->total, 2 * plan->total) : 0;
}

// ---- heavy draws before a slot

uint64_t mix_plan_reach(const struct mix_plan *plan) {
    return plan->heavy_count ? divide_up(plan->total, plan->weights[plan->heavy[0]]) : 0;
}

// A draw that may or may not be made before a slot: its window has begun, and has not ended.
struct candidate {
    uint64_t begin, end;
    uint32_t source;
    uint32_t rank; // by begin
};

static int compare_begins(const void *left, const void *right) {
    const struct candidate *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

static int compare_ends(const void *left, const void *right) {
    const struct candidate *a = left, *b = right;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return a->source < b->source ? -1 : 1;
}

// At most one draw of each source. Fills `made` with what is made in any case, the draws whose windows have ended.
static uint32_t find_candidates(const struct mix_plan *plan, uint64_t slot, struct candidate *candidates,
                                uint32_t *made) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->heavy_count; i++) {
        const uint32_t source = plan->heavy[i];
        const uint64_t weight = plan->weights[source], ended = slot * weight / plan->total;
        const uint64_t begin = ended * plan->total / weight;
        made[source] = (uint32_t)ended;
        if (begin < slot)
            candidates[count++] = (struct candidate){
                .begin = begin, .end = divide_up((ended + 1) * plan->total, weight), .source = source};
    }
    qsort(candidates, count, sizeof *candidates, compare_begins);
    for (uint32_t i = 0; i < count; i++)
        candidates[i].rank = i;
    return count;
}

// Counts, for each slot from `first` to before `slot`, the draws that are made in any case and whose windows begin
// there. A light draw is one whose window is a single slot.
static void count_begins(const struct mix_plan *plan, uint64_t first, uint64_t slot, const uint32_t *made,
                         uint16_t *begins) {
    memset(begins, 0, (slot - first) * sizeof *begins);
    for (uint32_t i = 0; i < plan->heavy_count; i++) {
        const uint64_t weight = plan->weights[plan->heavy[i]], ended = made[plan->heavy[i]];
        const uint64_t whole = plan->total / weight, part = plan->total % weight;
        uint64_t number = divide_up(first * weight, plan->total);
        uint64_t at = number * plan->total / weight - first, rest = number * plan->total % weight;
        for (; number < ended; number++) {
            begins[at]++;
            rest += part;
            const bool carry = rest >= weight;
            at += whole + carry;
            rest -= carry ? weight : 0;
        }
    }
    const uint64_t light_end = mix_plan_light_before(plan, slot);
    for (uint64_t number = mix_plan_light_before(plan, first); number < light_end; number++)
        begins[mix_plan_light_slot(plan, number) - first]++;
}

// For each candidate by begin: how many candidates that begin there or later may be made, as far as that depends on
// the slots after the begin of the one before.
static void find_limits(const struct candidate *candidates, uint32_t count, uint64_t slot,
                        const uint16_t *begins, int64_t *limits) {
    const uint64_t first = candidates[0].begin;
    int64_t left = 0; // slots from `at` on that are not needed for what is made in any case
    uint64_t at = slot;
    for (uint32_t i = count; i-- > 1;) {
        limits[i] = INT64_MAX;
        while (at > candidates[i - 1].begin + 1) {
            left += 1 - begins[--at - first];
            if (at <= candidates[i].begin && left < limits[i])
                limits[i] = left;
        }
    }
}

// Of the candidates, those whose windows end first are made, while the slots suffice for all that are.
void mix_plan_made(const struct mix_plan *plan, uint64_t slot, uint16_t *room, uint32_t *made) {
    struct candidate candidates[MIX_MAX_SOURCES];
    int64_t limits[MIX_MAX_SOURCES];
    const uint32_t count = find_candidates(plan, slot, candidates, made);
    if (count == 0)
        return;
    count_begins(plan, candidates[0].begin, slot, made, room);
    find_limits(candidates, count, slot, room, limits);
    limits[0] = (int64_t)(slot - mix_plan_light_before(plan, slot));
    for (uint32_t i = 0; i < plan->heavy_count; i++)
        limits[0] -= made[plan->heavy[i]];
    qsort(candidates, count, sizeof *candidates, compare_ends);
    uint32_t full = 0; // nothing from this rank on can be made any more
    while (full < count && limits[full] > 0)
        full++;
    for (uint32_t i = 0; i < count && full; i++) {
        if (candidates[i].rank >= full)
            continue;
        made[candidates[i].source]++;
        for (uint32_t rank = candidates[i].rank + 1; rank-- > 0;)
            if (--limits[rank] == 0)
                full = rank;
    }
}
