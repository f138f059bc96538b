#include "daemon/source/build/builder_weights.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/dataset/list_memory.h"
#include "daemon/source/build/builder_vector.h"
#include "daemon/source/build/weight_text.h"
#include "daemon/source/source.h"
#include "order/draw.h"
#include "order/shares.h"

struct weights {
    struct vector vector;
    uint64_t of;
    uint64_t bytes;            // of the list
    struct dataset_list *list; // mapped until it is sealed; NULL: it is not
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
        memcpy(weights->list->words + place, words, count * sizeof *words);
    return err;
}

// Each step takes at most about a second; a reload that moves on is not given up.
static void made_progress(void) {
    atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
}

static int map_list(struct builder *builder, struct weights *weights) {
    int err = builder_vector_allocate(builder, &weights->vector);
    if (err)
        return err;
    err = list_memory_map(builder->dataset->list_fd, weights->bytes, &source_progress, &weights->list);
    if (err)
        return builder_refuse(builder, err, weights->vector.file.path,
                              "cannot keep its weights in memory: %s", strerror(-err));
    return 0;
}

static int make_table(struct builder *builder, struct weights *weights) {
    int err = map_list(builder, weights);
    for (uint64_t place = 0; place < weights->of && !err; place += VECTOR_AT_ONCE)
        err = read_some(builder, weights, place, (uint32_t)min_u64(VECTOR_AT_ONCE, weights->of - place));
    if (err)
        return err;
    if (shares_sum(weights->vector.header.dtype, weights->list->words, weights->of))
        return builder_refuse(builder, -EINVAL, weights->vector.file.path,
                              "found weights that are all 0, wanted at least one above 0");
    made_progress();
    draw_prepare(weights->list->words, weights->of);
    made_progress();
    return 0;
}

int builder_weights(struct builder *builder, uint64_t of, struct selection *selection) {
    struct weights weights = {.vector = {"its weights", SOURCE_FILE_NONE, {0}}, .of = of};
    const char *key = builder->key;
    const uint64_t draws = builder->config->epoch_samples;
    builder->key = "weights";
    int err = builder_vector_open(builder, builder->config->weights, &weights.vector);
    if (!err)
        err = check_header(builder, &weights);
    weights.bytes = sizeof *weights.list + (err ? 0 : draw_bytes(of));
    if (!err)
        err = make_table(builder, &weights);
    if (!err)
        *selection = (struct selection){.kind = SELECTION_WEIGHTED_1,
                                        .of = of,
                                        .count = draws ? draws : of,
                                        .seed = XXH3_64bits(weights.list->words, of * sizeof(uint64_t))};
    list_memory_unmap(&weights.list, weights.bytes);
    if (!err)
        err = builder_vector_seal(builder, &weights.vector);
    if (!err)
        builder->key = key;
    vector_release(&weights.vector);
    return err;
}
