// A period of a mixture is never written down whole: only the draws of light sources are, one byte each. Those of
// heavy sources follow their schedule, which can be entered at any slot (order/mix_plan.h).
#include "order/mix.h"

#include <errno.h>
#include <string.h>

#include "base/sizes.h"
#include "order/mix_plan.h"

#define WALK_SHARE                                                                                           \
    16 // a step of the schedule costs about as much as entering it does for so many slots of lookback

struct mix {
    struct mix_plan plan;
    uint8_t listed[]; // the source of each light draw of a period
};

struct mix_cursor {
    const struct mix *mix;
    struct mix_base base;
    uint64_t period;      // of the next slot
    uint64_t slot;        // the next one, in that period
    uint64_t light_drawn; // in this period, before that slot
    uint64_t light_slot;  // of the next light draw
    uint64_t walk;        // slots ahead up to which following the schedule is cheaper than entering it anew
    struct mix_schedule heavy;
    uint16_t room[]; // for mix_plan_made
};

// ---- mixtures

static void list_light(struct mix *mix) {
    struct mix_schedule schedule = {
        .window = MIX_WINDOW_INNER, .total = mix->plan.light_total, .weights = mix->plan.weights};
    mix_schedule_start(&schedule, mix->plan.light, mix->plan.light_count);
    for (uint64_t at = 0; at < mix->plan.light_total; at++)
        mix->listed[at] = (uint8_t)mix_schedule_draw(&schedule, at);
}

int mix_open_listed(const uint32_t *weights, uint32_t sources, uint32_t listed, struct mix **mix,
                    struct error *error) {
    struct mix_plan plan;
    int err = mix_plan_make(weights, sources, listed, &plan, error);
    if (err < 0)
        return err;
    struct mix *made = malloc(sizeof *made + plan.light_total);
    if (!made)
        return error_set(error, -ENOMEM, "no memory for a mix, which needs %llu bytes",
                         (unsigned long long)(sizeof *made + plan.light_total));
    made->plan = plan;
    list_light(made);
    *mix = made;
    return 0;
}

int mix_open(enum mix_version version, const uint32_t *weights, uint32_t sources, struct mix **mix,
             struct error *error) {
    if (version != MIX_1)
        return error_set(error, -EINVAL, "found version %u of mixes, wanted %u", (unsigned)version, MIX_1);
    return mix_open_listed(weights, sources, MIX_LISTED, mix, error);
}

void mix_close(struct mix *mix) {
    free(mix);
}

uint64_t mix_lookback(const struct mix *mix) {
    return mix_plan_reach(&mix->plan);
}

// ---- finding a slot

// The heavy sources' draws before the slot have been filled in.
static void place_cursor(struct mix_cursor *cursor, uint64_t slot) {
    const struct mix_plan *plan = &cursor->mix->plan;
    cursor->slot = slot;
    cursor->light_drawn = mix_plan_light_before(plan, slot);
    cursor->light_slot = mix_plan_light_slot(plan, cursor->light_drawn);
    mix_schedule_start(&cursor->heavy, plan->heavy, plan->heavy_count);
}

// The source of the next slot.
static inline uint32_t step(struct mix_cursor *cursor) {
    const uint64_t slot = cursor->slot++;
    if (slot != cursor->light_slot)
        return mix_schedule_draw(&cursor->heavy, slot);
    const uint32_t source = cursor->mix->listed[cursor->light_drawn++];
    cursor->light_slot = mix_plan_light_slot(&cursor->mix->plan, cursor->light_drawn);
    return source;
}

static void seek(struct mix_cursor *cursor, uint64_t position) {
    const struct mix_plan *plan = &cursor->mix->plan;
    const uint64_t run = position - cursor->base.start, period = run / plan->total, slot = run % plan->total;
    const bool ahead = plan->heavy_count && period == cursor->period && slot >= cursor->slot;
    if (ahead && slot - cursor->slot <= cursor->walk) {
        while (cursor->slot < slot)
            step(cursor);
        return;
    }
    mix_plan_made(plan, slot, cursor->room, cursor->heavy.drawn);
    cursor->period = period;
    place_cursor(cursor, slot);
}

// ---- cursors

int mix_cursor_open(const struct mix *mix, const struct mix_base *base, struct mix_cursor **cursor,
                    struct error *error) {
    const uint32_t sources = mix->plan.sources;
    const uint64_t lookback = mix_lookback(mix);
    uint64_t left = base ? base->start : 0;
    for (uint32_t i = 0; base && i < sources; i++) {
        if (base->drawn[i] > left)
            return error_set(error, -EINVAL,
                             "found more samples drawn from %u sources than positions before the start of "
                             "the mixture, wanted at most %llu",
                             sources, (unsigned long long)base->start);
        left -= base->drawn[i];
    }
    const size_t bytes = sizeof(struct mix_cursor) + lookback * sizeof(uint16_t);
    struct mix_cursor *made = calloc(1, bytes);
    if (!made)
        return error_set(error, -ENOMEM, "no memory for a mix, which needs %zu bytes", bytes);
    made->mix = mix;
    made->walk = mix->plan.sources + lookback / WALK_SHARE;
    made->heavy = (struct mix_schedule){
        .window = MIX_WINDOW_FULL, .total = mix->plan.total, .weights = mix->plan.weights};
    if (base)
        made->base = *base;
    place_cursor(made, 0);
    *cursor = made;
    return 0;
}

void mix_cursor_close(struct mix_cursor *cursor) {
    free(cursor);
}

// Draws of a light source in a period before light draw `at`, which is one of that source: the windows of INNER draws
// do not overlap, so only one has its window there.
static uint64_t light_number(const struct mix *mix, uint32_t source, uint64_t at) {
    return (2 * at + 1) * mix->plan.weights[source] / (2 * mix->plan.light_total);
}

// What stands at the next slot; the cursor moves on.
static struct mix_draw draw(struct mix_cursor *cursor) {
    const struct mix *mix = cursor->mix;
    const bool is_light = cursor->slot == cursor->light_slot;
    const uint32_t source = step(cursor);
    const uint64_t number = is_light ? light_number(mix, source, cursor->light_drawn - 1)
                                     : cursor->heavy.drawn[source] - UINT64_C(1);
    const uint64_t before = cursor->base.drawn[source] + cursor->period * mix->plan.weights[source];
    if (cursor->slot == mix->plan.total) {
        cursor->period++;
        memset(cursor->heavy.drawn, 0, sizeof cursor->heavy.drawn);
        place_cursor(cursor, 0);
    }
    return (struct mix_draw){.number = before + number, .source = source};
}

void mix_draws(struct mix_cursor *cursor, uint64_t first, uint32_t count, struct mix_draw *draws) {
    const uint64_t start = cursor->base.start;
    const uint32_t before = (uint32_t)(first < start ? min_u64(count, start - first) : 0);
    uint32_t end = count;
    if (count && UINT64_MAX - first < count - 1)
        end = (uint32_t)(UINT64_MAX - first) + 1;
    for (uint32_t at = 0; at < count; at++)
        draws[at] = (struct mix_draw){.number = UINT64_MAX, .source = MIX_NO_SOURCE};
    if (before == end)
        return;
    seek(cursor, first + before);
    for (uint32_t at = before; at < end; at++)
        draws[at] = draw(cursor);
}

int mix_base_at(struct mix_cursor *cursor, uint64_t position, struct mix_base *base) {
    const struct mix_plan *plan = &cursor->mix->plan;
    if (position < cursor->base.start)
        return -ERANGE;
    seek(cursor, position);
    uint64_t drawn[MIX_MAX_SOURCES] = {0};
    for (uint64_t at = 0; at < cursor->light_drawn; at++)
        drawn[cursor->mix->listed[at]]++;
    for (uint32_t i = 0; i < plan->heavy_count; i++)
        drawn[plan->heavy[i]] = cursor->heavy.drawn[plan->heavy[i]];
    for (uint32_t i = 0; i < plan->sources; i++)
        drawn[i] += cursor->base.drawn[i] + cursor->period * plan->weights[i];
    *base = (struct mix_base){.start = position};
    memcpy(base->drawn, drawn, sizeof drawn);
    return 0;
}
