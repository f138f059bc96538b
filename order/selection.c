#include "order/selection.h"

void selector_init(struct selector *selector, const struct selection *selection, const uint64_t *list) {
    *selector = (struct selector){.selection = *selection, .list = list};
    if (selection->kind == SELECTION_SPLIT_1)
        order_init(&selector->split, ORDER_FEISTEL_1, selection->of, selection->seed, SELECTION_EPOCH);
}

void selector_map(const struct selector *selector, uint64_t *samples, uint32_t count) {
    const struct selection *selection = &selector->selection;
    if (selection->kind == SELECTION_ALL)
        return;
    for (uint32_t i = 0; i < count; i++)
        if (samples[i] >= selection->count)
            samples[i] = UINT64_MAX;
        else
            samples[i] = selector->list ? selector->list[samples[i]] : selection->first + samples[i];
    if (selection->kind == SELECTION_SPLIT_1)
        order_gather(&selector->split, count, samples);
}
