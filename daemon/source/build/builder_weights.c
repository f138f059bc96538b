#include "daemon/source/build/builder_weights.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_vector.h"
#include "daemon/source/build/weight_text.h"
#include "daemon/source/source.h"
#include "order/draw.h"
#include "order/shares.h"

struct weights {
    struct vector vector;
    uint64_t of;
    struct view_memory memory;
};

static int check_header(struct builder *builder, const struct weights *weights) {
    const struct array_header *header = &weights->vector.header;
    const char *path = weights->vector.file.path;
    char shape[DATASET_SHAPE_TEXT];
    struct weight weight;
    if (header->dimensions != 1 || weight_decode(header->dtype, 0, &weight))
        return builder_refuse(
            builder, -EINVAL, path, "found %s%s, wanted an array of integers or floats with one dimension",
            dtype_name(header->dtype), dataset_shape_text(header->dimensions, header->shape, shape));
    if (weights->of > SHARES_MOST)
        return builder_refuse(builder, -EFBIG, path,
                              "found weights for %" PRIu64 " samples of dataset %s, wanted at most %u",
                              weights->of, builder->config->of, SHARES_MOST);
    if (header->shape[0] != weights->of)
        return builder_refuse(builder, -EINVAL, path,
                              "found %" PRIu64 " weights, wanted %" PRIu64
                              ", one for each sample of dataset %s",
                              header->shape[0], weights->of, builder->config->of);
    return arrays_check_size(builder, &weights->vector.file, header);
}

static int read_some(struct builder *builder, const struct weights *weights, uint64_t place, uint32_t count) {
    const uint32_t dtype = weights->vector.header.dtype;
    uint64_t words[VECTOR_AT_ONCE];
    char text[WEIGHT_TEXT];
    struct weight weight;
    int err = builder_vector_read(builder, &weights->vector, place, count, words);
    for (uint32_t i = 0; i < count && !err; i++) {
        err = weight_decode(dtype, words[i], &weight);
        if (err)
            return builder_refuse(builder, -ERANGE, weights->vector.file.path,
                                  "found weight %s at index %" PRIu64
                                  ", wanted finite numbers that are not below 0",
                                  weight_text(dtype, words[i], err, text), place + i);
    }
    if (!err)
        memcpy(weights->memory.list->words + place, words, count * sizeof *words);
    return err;
}

// Each step takes at most about a second; a reload that moves on is not given up.
static void made_progress(void) {
    atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
}

static int read_all(struct builder *builder, struct weights *weights) {
    int err = view_memory_allocate(builder, "weights", draw_bytes(weights->of), &weights->memory);
    for (uint64_t place = 0; place < weights->of && !err; place += VECTOR_AT_ONCE)
        err = read_some(builder, weights, place, (uint32_t)min_u64(VECTOR_AT_ONCE, weights->of - place));
    return err;
}

// `times` NULL: each sample counts once.
static int sum_up(struct builder *builder, const struct weights *weights, const uint32_t *times,
                  uint64_t chosen) {
    const uint32_t dtype = weights->vector.header.dtype;
    uint64_t *words = weights->memory.list->words;
    const char *path = weights->vector.file.path;
    int err =
        times ? shares_sum_times(dtype, words, times, weights->of) : shares_sum(dtype, words, weights->of);
    if (err && times)
        return builder_refuse(builder, -EINVAL, path,
                              "found weights of 0 for all of the %" PRIu64
                              " samples that the view chooses, wanted at least one above 0",
                              chosen);
    if (err)
        return builder_refuse(builder, -EINVAL, path,
                              "found weights that are all 0, wanted at least one above 0");
    return 0;
}

static int make_table(struct builder *builder, struct weights *weights, struct choice *choice) {
    AUTO_FREE uint32_t *times = NULL;
    int err = choice_count(builder, choice, &times);
    if (!err)
        err = read_all(builder, weights);
    if (!err && times)
        builder->chosen_hash = XXH3_64bits(times, weights->of * sizeof *times);
    if (!err)
        err = sum_up(builder, weights, times, choice->count);
    if (err)
        return err;
    made_progress();
    draw_prepare(weights->memory.list->words, weights->of);
    made_progress();
    return 0;
}

static int read_weights(struct builder *builder, struct weights *weights, struct choice *choice,
                        struct selection *selection) {
    const uint64_t draws = builder->config->epoch_samples;
    int err = builder_vector_open(builder, builder->config->weights, &weights->vector);
    if (!err)
        err = check_header(builder, weights);
    if (!err)
        err = make_table(builder, weights, choice);
    if (err)
        return err;
    *selection = (struct selection){
        .kind = SELECTION_WEIGHTED_1,
        .of = weights->of,
        .count = draws ? draws : choice->count,
        .seed = XXH3_64bits(weights->memory.list->words, weights->of * sizeof(uint64_t)),
    };
    return view_memory_keep(builder, &weights->memory);
}

int builder_weights(struct builder *builder, struct choice *choice, struct selection *selection) {
    struct weights weights = {
        .vector = {"its weights", SOURCE_FILE_NONE, {0}}, .of = choice->of, .memory = VIEW_MEMORY_NONE};
    const char *key = builder->key;
    builder->key = "weights";
    int err = read_weights(builder, &weights, choice, selection);
    if (!err)
        builder->key = key;
    view_memory_release(&weights.memory);
    vector_release(&weights.vector);
    return err;
}
