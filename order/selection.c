#include "order/selection.h"

size_t selection_list_bytes(const struct selection *selection) {
    switch (selection->kind) {
    case SELECTION_LIST:
        return selection->count * sizeof(uint64_t);
    case SELECTION_WEIGHTED_1:
        return draw_bytes(selection->of);
    default:
        return 0;
    }
}

void selector_init(struct selector *selector, const struct selection *selection, const uint64_t *list) {
    *selector = (struct selector){.selection = *selection};
    if (selection->kind == SELECTION_LIST)
        selector->list = list;
    if (selection->kind == SELECTION_WEIGHTED_1)
        draw_init(&selector->draws, list, selection->of);
    if (selection->kind == SELECTION_SPLIT_1)
        order_init(&selector->split, ORDER_FEISTEL_1, selection->of, selection->seed, SELECTION_EPOCH);
}

void selector_map(const struct selector *selector, uint64_t seed, uint64_t epoch, uint64_t *samples,
                  uint32_t count) {
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
    if (selection->kind == SELECTION_WEIGHTED_1)
        draw_samples(&selector->draws, seed, epoch, count, samples);
}
