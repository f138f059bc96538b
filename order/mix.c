// A period of a mixture, W slots, is never written down whole. The draws of light sources are, one byte each. Those
// of heavy sources are found by walking, from a slot before the one that is asked for that is near because their
// windows are short. order/README.md says why that finds the same as walking from slot 0.
#include "order/mix.h"

#include <errno.h>
#include <string.h>

#include "base/sizes.h"

#define NEVER UINT64_MAX

struct mix {
    uint32_t sources, heavy_count, light_count;
    uint64_t total, light_total;
    uint32_t weights[MIX_MAX_SOURCES];
    uint8_t heavy[MIX_MAX_SOURCES], light[MIX_MAX_SOURCES]; // sources
    uint8_t listed[];                                       // the source of each light draw of a period
};

struct mix_cursor {
    const struct mix *mix;
    struct mix_base base;
    uint64_t period;      // of the next slot
    uint64_t slot;        // the next one, in that period
    uint64_t light_drawn; // in this period, before that slot
    uint64_t light_slot;  // of the next light draw
    struct mix_schedule heavy;
};

// ---- setting up

static int compare_keys(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

// The lightest sources are light while their draws can be listed; of those with the same weight, the last one first.
static void split_sources(struct mix *mix, uint32_t listed) {
    uint64_t keys[MIX_MAX_SOURCES];
    for (uint32_t i = 0; i < mix->sources; i++)
        keys[i] = (uint64_t)mix->weights[i] * MIX_MAX_SOURCES + (MIX_MAX_SOURCES - 1 - i);
    qsort(keys, mix->sources, sizeof *keys, compare_keys);
    for (uint32_t i = 0; i < mix->sources; i++) {
        const uint64_t weight = keys[i] / MIX_MAX_SOURCES;
        const uint8_t source = (uint8_t)(MIX_MAX_SOURCES - 1 - keys[i] % MIX_MAX_SOURCES);
        if (mix->heavy_count == 0 && mix->light_total + weight <= listed) {
            mix->light[mix->light_count++] = source;
            mix->light_total += weight;
        } else {
            mix->heavy[mix->heavy_count++] = source;
        }
    }
}

static void list_light(struct mix *mix) {
    struct mix_schedule schedule;
    mix_schedule_start(&schedule, MIX_WINDOW_INNER, mix->weights, mix->light_total, mix->light,
                       mix->light_count, 0);
    for (uint64_t at = 0; at < mix->light_total; at++)
        mix->listed[at] = (uint8_t)mix_schedule_draw(&schedule, at);
}

static uint32_t common_factor(uint32_t left, uint32_t right) {
    while (right) {
        const uint32_t rest = left % right;
        left = right;
        right = rest;
    }
    return left;
}

// Fills weights and total of an empty mixture.
static int set_weights(struct mix *mix, const uint32_t *weights, struct error *error) {
    uint32_t factor = 0;
    for (uint32_t i = 0; i < mix->sources; i++) {
        if (weights[i] == 0)
            return error_set(error, -EINVAL, "found weight 0 for source %u, wanted at least 1", i);
        factor = common_factor(factor, weights[i]);
    }
    for (uint32_t i = 0; i < mix->sources; i++) {
        mix->weights[i] = weights[i] / factor;
        mix->total += mix->weights[i];
    }
    if (mix->total > MIX_MAX_TOTAL)
        return error_set(error, -ERANGE, "found weights with a total of %llu, wanted at most %u",
                         (unsigned long long)mix->total, MIX_MAX_TOTAL);
    return 0;
}

int mix_open_listed(const uint32_t *weights, uint32_t sources, uint32_t listed, struct mix **mix,
                    struct error *error) {
    struct mix plan = {.sources = sources};
    if (sources < 1 || sources > MIX_MAX_SOURCES)
        return error_set(error, -EINVAL, "found %u sources in a mixture, wanted 1 to %u", sources,
                         MIX_MAX_SOURCES);
    int err = set_weights(&plan, weights, error);
    if (err < 0)
        return err;
    split_sources(&plan, listed);
    struct mix *made = malloc(sizeof *made + plan.light_total);
    if (!made)
        return error_set(error, -ENOMEM, "found no memory for a mixture, wanted %llu bytes",
                         (unsigned long long)(sizeof *made + plan.light_total));
    memcpy(made, &plan, sizeof plan);
    list_light(made);
    *mix = made;
    return 0;
}

int mix_open(enum mix_version version, const uint32_t *weights, uint32_t sources, struct mix **mix,
             struct error *error) {
    if (version != MIX_1)
        return error_set(error, -EINVAL, "found version %u of mixtures, wanted %u", (unsigned)version, MIX_1);
    return mix_open_listed(weights, sources, MIX_LISTED, mix, error);
}

void mix_close(struct mix *mix) {
    free(mix);
}

// ---- finding a slot

// Of light draw `number` of a period; NEVER if there are no light sources.
static uint64_t light_slot(const struct mix *mix, uint64_t number) {
    return mix->light_count ? (2 * number + 1) * mix->total / (2 * mix->light_total) : NEVER;
}

// Light draws of a period before `slot`: slot * light_total / total, rounded to the nearest, halves down.
static uint64_t light_before(const struct mix *mix, uint64_t slot) {
    const uint64_t twice = 2 * slot * mix->light_total;
    return twice > mix->total ? divide_up(twice - mix->total, 2 * mix->total) : 0;
}

// The first slot of a window that ends after `slot`: all draws whose windows began before it are made by `slot`.
static uint64_t earliest_begin(const struct mix *mix, uint64_t slot) {
    uint64_t earliest = slot;
    for (uint32_t i = 0; i < mix->heavy_count; i++) {
        const uint64_t weight = mix->weights[mix->heavy[i]];
        earliest = min_u64(earliest, slot * weight / mix->total * mix->total / weight);
    }
    return earliest;
}

static void place_cursor(struct mix_cursor *cursor, uint64_t slot) {
    cursor->slot = slot;
    cursor->light_drawn = light_before(cursor->mix, slot);
    cursor->light_slot = light_slot(cursor->mix, cursor->light_drawn);
}

static void start_at(struct mix_cursor *cursor, uint64_t slot) {
    const struct mix *mix = cursor->mix;
    place_cursor(cursor, slot);
    mix_schedule_start(&cursor->heavy, MIX_WINDOW_FULL, mix->weights, mix->total, mix->heavy,
                       mix->heavy_count, slot);
}

// The source of the next slot.
static inline uint32_t step(struct mix_cursor *cursor) {
    const uint64_t slot = cursor->slot++;
    if (slot != cursor->light_slot)
        return mix_schedule_draw(&cursor->heavy, slot);
    const uint32_t source = cursor->mix->listed[cursor->light_drawn++];
    cursor->light_slot = light_slot(cursor->mix, cursor->light_drawn);
    return source;
}

// Walks on from where the cursor is, if that is near enough. Otherwise begins at a slot where only the number of
// draws is known that are late, that is, not made although their windows have begun, and not of which sources. They
// are all made before `slot`, and what else is made by then does not depend on when. So they come first.
static void seek_slot(struct mix_cursor *cursor, uint64_t period, uint64_t slot) {
    const struct mix *mix = cursor->mix;
    if (!mix->heavy_count) {
        cursor->period = period;
        place_cursor(cursor, slot);
        return;
    }
    const uint64_t begin = earliest_begin(mix, slot);
    uint64_t late = 0;
    if (cursor->period != period || cursor->slot > slot || cursor->slot < begin) {
        cursor->period = period;
        start_at(cursor, begin);
        for (uint32_t i = 0; i < mix->heavy_count; i++)
            late += cursor->heavy.drawn[mix->heavy[i]];
        late -= begin - cursor->light_drawn;
    }
    while (late) {
        late -= cursor->slot != cursor->light_slot;
        if (cursor->slot == cursor->light_slot)
            cursor->light_slot = light_slot(mix, ++cursor->light_drawn);
        cursor->slot++;
    }
    while (cursor->slot < slot)
        step(cursor);
}

static void seek(struct mix_cursor *cursor, uint64_t position) {
    const uint64_t run = position - cursor->base.start, total = cursor->mix->total;
    if (run / total != cursor->period || run % total != cursor->slot)
        seek_slot(cursor, run / total, run % total);
}

uint64_t mix_lookback(const struct mix *mix) {
    uint64_t longest = 0;
    for (uint32_t i = 0; i < mix->heavy_count; i++)
        longest = max_u64(longest, divide_up(mix->total, mix->weights[mix->heavy[i]]));
    return longest;
}

// ---- cursors

int mix_cursor_open(const struct mix *mix, const struct mix_base *base, struct mix_cursor **cursor,
                    struct error *error) {
    uint64_t left = base ? base->start : 0;
    for (uint32_t i = 0; base && i < mix->sources; i++) {
        if (base->drawn[i] > left)
            return error_set(error, -EINVAL,
                             "found more samples drawn from %u sources than positions before the start of "
                             "the mixture, wanted at most %llu",
                             mix->sources, (unsigned long long)base->start);
        left -= base->drawn[i];
    }
    struct mix_cursor *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, -ENOMEM, "found no memory for a mixture, wanted %zu bytes", sizeof *made);
    made->mix = mix;
    if (base)
        made->base = *base;
    start_at(made, 0);
    *cursor = made;
    return 0;
}

void mix_cursor_close(struct mix_cursor *cursor) {
    free(cursor);
}

// Draws of a light source in a period before light draw `at`, which is one of that source: the windows of INNER draws
// do not overlap, so only one has its window there.
static uint64_t light_number(const struct mix *mix, uint32_t source, uint64_t at) {
    return (2 * at + 1) * mix->weights[source] / (2 * mix->light_total);
}

// What stands at the next slot; the cursor moves on.
static struct mix_draw draw(struct mix_cursor *cursor) {
    const struct mix *mix = cursor->mix;
    const bool is_light = cursor->slot == cursor->light_slot;
    const uint32_t source = step(cursor);
    const uint64_t number = is_light ? light_number(mix, source, cursor->light_drawn - 1)
                                     : cursor->heavy.drawn[source] - UINT64_C(1);
    const uint64_t before = cursor->base.drawn[source] + cursor->period * mix->weights[source];
    if (cursor->slot == mix->total) {
        cursor->period++;
        start_at(cursor, 0);
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
    const struct mix *mix = cursor->mix;
    if (position < cursor->base.start)
        return -ERANGE;
    seek(cursor, position);
    uint64_t drawn[MIX_MAX_SOURCES] = {0};
    for (uint64_t at = 0; at < cursor->light_drawn; at++)
        drawn[mix->listed[at]]++;
    for (uint32_t i = 0; i < mix->heavy_count; i++)
        drawn[mix->heavy[i]] = cursor->heavy.drawn[mix->heavy[i]];
    for (uint32_t i = 0; i < mix->sources; i++)
        drawn[i] += cursor->base.drawn[i] + cursor->period * mix->weights[i];
    *base = (struct mix_base){.start = position};
    memcpy(base->drawn, drawn, sizeof drawn);
    return 0;
}
