#include "order/sampler.h"

#include "order/replace.h"

static int open_window(struct sampler *sampler, const struct selection *selection,
                       const struct window_groups *groups, uint64_t bytes, struct error *error) {
    const bool whole = selection->kind == SELECTION_ALL;
    if (!whole && selection->kind != SELECTION_RANGE)
        return error_set(error, -EINVAL, "found a window of groups with samples that lie anywhere");
    int err = window_groups_check(groups, bytes, whole ? sampler->samples : selection->of, error);
    if (!err &&
        window_order_open(groups, selection->first, sampler->samples, sampler->seed, &sampler->window))
        err = error_set(error, -ENOMEM, "out of memory");
    return err;
}

int sampler_open(struct sampler *sampler, enum order_version version, uint64_t samples, uint64_t seed,
                 const struct selection *selection, const uint64_t *list, uint64_t list_bytes,
                 struct error *error) {
    *sampler = (struct sampler){.version = version, .samples = samples, .seed = seed};
    selector_init(&sampler->selector, selection, list);
    if (version != ORDER_WINDOW_1)
        return 0;
    return open_window(sampler, selection, (const void *)list, list_bytes, error);
}

void sampler_close(struct sampler *sampler) {
    window_order_close(sampler->window);
    sampler->window = NULL;
}

static const struct order *order_of(struct sampler *sampler, uint64_t epoch) {
    uint32_t place = epoch & 1;
    if (!sampler->known[place] || sampler->epochs[place] != epoch) {
        order_init(&sampler->orders[place], sampler->version, sampler->samples, sampler->seed, epoch);
        sampler->epochs[place] = epoch;
        sampler->known[place] = true;
    }
    return &sampler->orders[place];
}

void sampler_samples(struct sampler *sampler, uint64_t epoch, uint64_t first, uint32_t count,
                     uint64_t *samples) {
    if (sampler->window)
        window_order_samples(sampler->window, epoch, first, count, samples);
    else
        order_samples(order_of(sampler, epoch), first, count, samples);
    selector_map(&sampler->selector, sampler->seed, epoch, samples, count);
}

uint64_t sampler_replacement(const struct sampler *sampler, uint64_t epoch, uint64_t position,
                             uint32_t attempt) {
    uint64_t sample = replace_number(sampler->seed, epoch, position, attempt, sampler->samples);
    selector_map(&sampler->selector, sampler->seed, epoch, &sample, 1);
    return sample;
}
