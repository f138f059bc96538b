#include "order/window.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/sizes.h"
#include "order/order.h"
#include "order/splitmix.h"

// The groups in the order in which one epoch visits them.
struct visits {
    bool known;
    uint64_t epoch;
    uint64_t
        *starts; // count + 1 of them: the position at which a visit begins, if its window were not shuffled
    uint32_t *groups;
};

struct window_order {
    uint64_t window;
    uint64_t count;         // of groups that have samples of ours
    const uint64_t *bounds; // of the first one of these
    uint64_t first, samples;
    uint64_t seed;
    struct visits visits[2]; // of the two latest epochs, by the epoch's lowest bit
};

int window_groups_check(const struct window_groups *groups, uint64_t bytes, uint64_t samples,
                        struct error *error) {
    if (bytes < window_groups_bytes(0) || groups->count == 0 || groups->count > WINDOW_MAX_GROUPS ||
        bytes < window_groups_bytes(groups->count))
        return error_set(error, -EINVAL, "found %" PRIu64 " bytes of groups, wanted 1 to %u groups", bytes,
                         WINDOW_MAX_GROUPS);
    if (groups->window == 0)
        return error_set(error, -EINVAL, "found a window of 0 groups, wanted at least 1");
    if (groups->bounds[0] != 0 || groups->bounds[groups->count] != samples)
        return error_set(error, -EINVAL,
                         "found groups from sample %" PRIu64 " to %" PRIu64 ", wanted 0 to %" PRIu64,
                         groups->bounds[0], groups->bounds[groups->count], samples);
    for (uint64_t i = 0; i < groups->count; i++)
        if (groups->bounds[i] >= groups->bounds[i + 1])
            return error_set(error, -EINVAL, "found no samples in group %" PRIu64 ", wanted some", i);
    return 0;
}

// ---- Opening -----------------------------------------------------------------------------------------------

// The last of bounds[0..count-1] that is at most `sample`. The first one is.
static uint64_t last_at_most(const uint64_t *bounds, uint64_t count, uint64_t sample) {
    uint64_t at = 0;
    while (count > 1) {
        const uint64_t half = count / 2;
        at += bounds[at + half] <= sample ? half : 0;
        count -= half;
    }
    return at;
}

int window_order_open(const struct window_groups *groups, uint64_t first, uint64_t count, uint64_t seed,
                      struct window_order **order) {
    const uint64_t begin = last_at_most(groups->bounds, groups->count, first);
    const uint64_t last = last_at_most(groups->bounds, groups->count, first + count - 1);
    struct window_order *made = calloc(1, sizeof *made);
    if (!made)
        return -ENOMEM;
    made->count = last + 1 - begin;
    made->window = min_u64(groups->window, made->count);
    made->bounds = groups->bounds + begin;
    made->first = first;
    made->samples = count;
    made->seed = seed;
    for (uint32_t i = 0; i < COUNT_OF(made->visits); i++) {
        made->visits[i].starts = calloc(made->count + 1, sizeof *made->visits[i].starts);
        made->visits[i].groups = calloc(made->count, sizeof *made->visits[i].groups);
        if (!made->visits[i].starts || !made->visits[i].groups) {
            window_order_close(made);
            return -ENOMEM;
        }
    }
    *order = made;
    return 0;
}

void window_order_close(struct window_order *order) {
    if (!order)
        return;
    for (uint32_t i = 0; i < COUNT_OF(order->visits); i++) {
        free(order->visits[i].starts);
        free(order->visits[i].groups);
    }
    free(order);
}

// ---- An epoch ----------------------------------------------------------------------------------------------

// Our first sample of a group, as we number them; the first group may begin before it. `group` may be one too many.
static uint64_t group_begin(const struct window_order *order, uint64_t group) {
    const uint64_t begin = max_u64(order->bounds[group], order->first) - order->first;
    return min_u64(begin, order->samples);
}

static const struct visits *visits_of(struct window_order *order, uint64_t epoch) {
    struct visits *visits = &order->visits[epoch & 1];
    if (visits->known && visits->epoch == epoch)
        return visits;
    struct order groups;
    uint64_t at = 0;
    order_init(&groups, ORDER_FEISTEL_1, order->count, order->seed, epoch);
    order_samples(&groups, 0, (uint32_t)order->count, visits->starts);
    for (uint64_t i = 0; i < order->count; i++) {
        const uint64_t group = visits->starts[i];
        visits->groups[i] = (uint32_t)group;
        visits->starts[i] = at;
        at += group_begin(order, group + 1) - group_begin(order, group);
    }
    visits->starts[order->count] = at;
    visits->epoch = epoch;
    visits->known = true;
    return visits;
}

// ---- A window ----------------------------------------------------------------------------------------------

static uint64_t window_seed(uint64_t seed, uint64_t window) {
    return splitmix64(splitmix64(seed) ^ window);
}

// Those of one window: fewer than `count` if it ends before. `position` is one of the epoch's. Returns how many.
static uint32_t window_samples(const struct window_order *order, const struct visits *visits, uint64_t epoch,
                               uint64_t position, uint32_t count, uint64_t *samples) {
    const uint64_t window = last_at_most(visits->starts, order->count, position) / order->window;
    const uint64_t from = window * order->window, to = min_u64(from + order->window, order->count);
    const uint64_t *starts = visits->starts + from;
    const uint64_t begin = starts[0], end = visits->starts[to];
    const uint32_t here = (uint32_t)min_u64(count, end - position);
    struct order places;
    order_init(&places, ORDER_FEISTEL_1, end - begin, window_seed(order->seed, window), epoch);
    order_samples(&places, position - begin, here, samples);
    for (uint32_t i = 0; i < here; i++) {
        const uint64_t at = begin + samples[i], visit = last_at_most(starts, to - from, at);
        samples[i] = group_begin(order, visits->groups[from + visit]) + (at - starts[visit]);
    }
    return here;
}

void window_order_samples(struct window_order *order, uint64_t epoch, uint64_t first, uint32_t count,
                          uint64_t *samples) {
    const uint64_t left = first < order->samples ? order->samples - first : 0;
    const uint32_t inside = (uint32_t)min_u64(count, left);
    const struct visits *visits = visits_of(order, epoch);
    for (uint32_t done = 0; done < inside;)
        done += window_samples(order, visits, epoch, first + done, inside - done, samples + done);
    for (uint32_t at = inside; at < count; at++)
        samples[at] = UINT64_MAX;
}
