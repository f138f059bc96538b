#include "order/selection.h"

void selector_init(struct selector *selector, const struct selection *selection) {
    *selector = (struct selector){.selection = *selection};
    if (selection->kind == SELECTION_SPLIT_1)
        order_init(&selector->split, ORDER_FEISTEL_1, selection->of, selection->seed, SELECTION_EPOCH);
}

void selector_map(const struct selector *selector, uint64_t *samples, uint32_t count) {
    const struct selection *selection = &selector->selection;
    if (selection->kind == SELECTION_ALL)
        return;
    for (uint32_t i = 0; i < count; i++)
        samples[i] = samples[i] < selection->count ? selection->first + samples[i] : UINT64_MAX;
    if (selection->kind == SELECTION_SPLIT_1)
        order_gather(&selector->split, count, samples);
}
