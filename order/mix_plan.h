// What a mixture consists of, before anything is drawn: its sources, heavy and light, and where in a period the light
// draws stand. And which draws of heavy sources stand before a slot, without following the schedule up to there.
// order/README.md defines all of it.
#ifndef FEEDD_ORDER_MIX_PLAN_H
#define FEEDD_ORDER_MIX_PLAN_H

#include "base/error.h"
#include "order/mix_schedule.h"

// Plain data.
struct mix_plan {
    uint32_t sources, heavy_count, light_count;
    uint64_t total, light_total;
    uint32_t weights[MIX_MAX_SOURCES];                      // by source, without their common factor
    uint8_t heavy[MIX_MAX_SOURCES], light[MIX_MAX_SOURCES]; // sources, the lightest first
};

// The light sources are those of the least weight that add up to at most `listed`. Errors as mix_open.
int mix_plan_make(const uint32_t *weights, uint32_t sources, uint32_t listed, struct mix_plan *plan,
                  struct error *error);

// The slot of light draw `number` of a period; UINT64_MAX if there are no light sources.
uint64_t mix_plan_light_slot(const struct mix_plan *plan, uint64_t number);

// Light draws of a period before `slot`.
uint64_t mix_plan_light_before(const struct mix_plan *plan, uint64_t slot);

// How many slots back mix_plan_made looks at most: the length of the longest window of a heavy source.
uint64_t mix_plan_reach(const struct mix_plan *plan);

// Fills made[source] with the draws of each heavy source before `slot` of a period. `room` has mix_plan_reach words.
void mix_plan_made(const struct mix_plan *plan, uint64_t slot, uint16_t *room, uint32_t *made);

#endif
