#include "client/lib/view_part.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/sizes.h"

#define AT_ONCE 4096u // samples

int view_part_select(const struct feed_view *view, uint64_t of, const char *what, struct selection *part,
                     struct error *error) {
    const uint64_t first = selection_bound(of, view->begin);
    *part = (struct selection){.kind = view->kind,
                               .of = of,
                               .first = first,
                               .count = selection_bound(of, view->end) - first,
                               .seed = view->kind == FEED_SPLIT ? view->seed : 0};
    if (part->count)
        return 0;
    return error_set(error, -EINVAL, "split: %g to %g of %" PRIu64 " %s contains none",
                     view->begin / (double)SELECTION_WHOLE, view->end / (double)SELECTION_WHOLE, of, what);
}

// What stands at the places first to first + count - 1 of the part.
static void look_up(const struct selector *selector, uint64_t first, uint64_t count, uint64_t *found) {
    for (uint64_t i = 0; i < count; i++)
        found[i] = first + i;
    selector_map(selector, 0, 0, found, (uint32_t)count);
}

int view_part_cut(const struct selection *part, uint64_t **list, struct error *error) {
    struct selector selector;
    uint64_t *words = calloc(part->count, sizeof *words);
    if (!words)
        return error_set(error, -ENOMEM, "out of memory");
    selector_init(&selector, part, NULL);
    look_up(&selector, 0, part->count, words);
    for (uint64_t i = 0; i < part->count; i++)
        words[i] = (*list)[words[i]];
    free(*list);
    *list = words;
    return 0;
}

static int refuse_number(uint64_t number, uint64_t index, uint64_t of, enum feed_dtype dtype,
                         struct error *error) {
    const bool negative = dtype != FEED_U64 && number >> 63;
    return error_set(error, -ERANGE,
                     "indices: found sample number %s%" PRIu64 " at index %" PRIu64
                     ", wanted numbers from 0 to %" PRIu64 ", since there are %" PRIu64 " weights",
                     negative ? "-" : "", negative ? -number : number, index, of - 1, of);
}

int view_part_count(const struct selection *part, const uint64_t *list, enum feed_dtype dtype,
                    uint32_t *times, struct error *error) {
    uint64_t samples[AT_ONCE];
    struct selector selector;
    selector_init(&selector, part, list);
    for (uint64_t at = 0; at < part->count; at += AT_ONCE) {
        const uint64_t count = min_u64(AT_ONCE, part->count - at);
        look_up(&selector, at, count, samples);
        for (uint64_t i = 0; i < count; i++) {
            if (samples[i] >= part->of)
                return refuse_number(samples[i], at + i, part->of, dtype, error);
            times[samples[i]]++;
        }
    }
    return 0;
}
