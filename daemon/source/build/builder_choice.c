#include "daemon/source/build/builder_choice.h"

#include <inttypes.h>

#include "base/sizes.h"
#include "daemon/source/build/builder_list.h"
#include "daemon/source/source.h"

#define AT_ONCE 4096u // samples

void choice_release(struct choice *choice) {
    view_memory_release(&choice->numbers);
}

static bool is_listed(const struct choice *choice) {
    return choice->numbers.fd >= 0;
}

static int refuse_part(struct builder *builder, const struct choice *choice, uint64_t samples, int err) {
    const struct dataset_config *config = builder->config;
    const char *none = err == -ENODATA ? ", which is empty" : "";
    builder->key = "samples";
    if (is_listed(choice))
        return builder_refuse(builder, -EINVAL, NULL,
                              "found \"%s\"%s, wanted a part of the %" PRIu64 " sample numbers in %s",
                              config->part_text, none, samples, config->indices);
    return builder_refuse(builder, -EINVAL, NULL,
                          "found \"%s\"%s, wanted a part of the %" PRIu64 " samples of dataset %s",
                          config->part_text, none, samples, config->of);
}

static int take_part(struct builder *builder, struct choice *choice, uint64_t samples) {
    const struct dataset_config *config = builder->config;
    uint64_t first;
    int err = part_of(&config->part, samples, &first, &choice->count);
    if (err)
        return refuse_part(builder, choice, samples, err);
    if (choice->count < samples || config->split)
        choice->part = (struct selection){.kind = config->split ? SELECTION_SPLIT_1 : SELECTION_RANGE,
                                          .of = samples,
                                          .first = first,
                                          .count = choice->count,
                                          .seed = config->split ? config->split_seed : 0};
    return 0;
}

int builder_choose(struct builder *builder, struct choice *choice) {
    uint64_t samples = choice->of = builder->dataset->layout->samples;
    int err = builder->config->indices ? builder_list(builder, choice->of, &choice->numbers, &samples) : 0;
    return err ? err : take_part(builder, choice, samples);
}

// The samples first..first+count-1 of what is chosen.
static void look_up(const struct choice *choice, const struct selector *part, uint64_t first, uint64_t count,
                    uint64_t *samples) {
    for (uint64_t i = 0; i < count; i++)
        samples[i] = first + i;
    selector_map(part, 0, 0, samples, (uint32_t)count);
    for (uint64_t i = 0; is_listed(choice) && i < count; i++)
        samples[i] = choice->numbers.list->words[samples[i]];
    atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
}

int choice_cut_list(struct builder *builder, struct choice *choice) {
    AUTO_VIEW_MEMORY struct view_memory whole = VIEW_MEMORY_NONE;
    struct view_memory part = VIEW_MEMORY_NONE;
    struct selector selector;
    if (choice->part.kind == SELECTION_ALL)
        return 0;
    int err = view_memory_allocate(builder, choice->numbers.what, choice->count * sizeof(uint64_t), &part);
    selector_init(&selector, &choice->part, NULL);
    for (uint64_t at = 0; at < choice->count && !err; at += AT_ONCE)
        look_up(choice, &selector, at, min_u64(AT_ONCE, choice->count - at), part.list->words + at);
    whole = err ? part : choice->numbers;
    if (!err) {
        choice->numbers = part;
        choice->part = (struct selection){0};
    }
    return err;
}

int choice_count(struct builder *builder, struct choice *choice, uint32_t **times) {
    uint64_t samples[AT_ONCE];
    struct selector selector;
    uint32_t *counts;
    if (!is_listed(choice) && choice->part.kind == SELECTION_ALL)
        return 0;
    counts = *times = calloc(choice->of, sizeof *counts);
    if (!counts)
        return builder_out_of_memory(builder);
    selector_init(&selector, &choice->part, NULL);
    for (uint64_t at = 0; at < choice->count; at += AT_ONCE) {
        const uint64_t count = min_u64(AT_ONCE, choice->count - at);
        look_up(choice, &selector, at, count, samples);
        for (uint64_t i = 0; i < count; i++)
            counts[samples[i]]++;
    }
    view_memory_release(&choice->numbers);
    return 0;
}
