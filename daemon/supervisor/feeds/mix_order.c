#include "daemon/supervisor/feeds/mix_order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// A source's list, mapped; NULL if it has none.
struct list_map {
    const struct dataset_list *list;
    size_t bytes;
};

struct mix_order {
    uint64_t epoch_samples;
    uint32_t count; // of sources
    struct sampler *samplers;
    struct list_map *lists;
    struct mix_samples *samples;
};

static int map_list(const struct dataset *source, struct list_map *map, struct error *error) {
    const size_t bytes = dataset_list_bytes(source->layout);
    if (!bytes)
        return 0;
    void *memory =
        mmap(NULL, bytes + sizeof(struct dataset_list), PROT_READ, MAP_PRIVATE, source->list_fd, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map the list of %s: %m", source->name);
    *map = (struct list_map){memory, bytes + sizeof(struct dataset_list)};
    return 0;
}

static int open_samples(struct mix_order *order, const struct feed_shape *shape, uint32_t most,
                        struct error *error) {
    const struct dataset *mix = shape->dataset;
    struct mix_source sources[MIX_MAX_SOURCES];
    for (uint32_t i = 0; i < order->count; i++) {
        const struct dataset_layout *layout = mix->sources[i]->layout;
        int err = map_list(mix->sources[i], &order->lists[i], error);
        if (err)
            return err;
        const struct dataset_list *list = order->lists[i].list;
        err = sampler_open(&order->samplers[i], dataset_source_order(layout, shape->shuffle), layout->samples,
                           shape->seed, &layout->selection, list ? list->words : NULL,
                           dataset_list_bytes(layout), error);
        if (err)
            return err;
        sources[i] = (struct mix_source){.sampler = &order->samplers[i]};
    }
    return mix_samples_open(&shape->mix, sources, most, &order->samples, error);
}

int mix_order_open(const struct feed_shape *shape, uint32_t most, struct mix_order **made,
                   struct error *error) {
    const struct dataset *mix = shape->dataset;
    struct mix_order *order = calloc(1, sizeof *order);
    if (!order)
        return error_set(error, -ENOMEM, "out of memory");
    order->epoch_samples = mix->layout->samples;
    order->count = mix->layout->part_count;
    order->samplers = calloc(order->count, sizeof *order->samplers);
    order->lists = calloc(order->count, sizeof *order->lists);
    int err = order->samplers && order->lists ? open_samples(order, shape, most, error)
                                              : error_set(error, -ENOMEM, "out of memory");
    if (err)
        mix_order_close(order);
    else
        *made = order;
    return err;
}

void mix_order_close(struct mix_order *order) {
    if (!order)
        return;
    for (uint32_t i = 0; order->samplers && i < order->count; i++)
        sampler_close(&order->samplers[i]);
    for (uint32_t i = 0; order->lists && i < order->count; i++)
        if (order->lists[i].list)
            munmap((void *)order->lists[i].list, order->lists[i].bytes);
    mix_samples_close(order->samples);
    free(order->samplers);
    free(order->lists);
    free(order);
}

const struct mix_draw *mix_order_samples(struct mix_order *order, uint64_t epoch, uint64_t first,
                                         uint32_t count, uint64_t *samples) {
    uint64_t position;
    if (mix_run_position(order->epoch_samples, epoch, first, &position))
        mix_samples_at(order->samples, position, count, samples);
    else
        memset(samples, 0xff, count * sizeof *samples);
    return mix_samples_draws(order->samples);
}

uint64_t mix_order_replacement(struct mix_order *order, uint64_t epoch, uint64_t position, uint32_t attempt) {
    uint64_t of_run;
    if (!mix_run_position(order->epoch_samples, epoch, position, &of_run))
        return UINT64_MAX;
    return mix_samples_replacement(order->samples, of_run, attempt);
}
