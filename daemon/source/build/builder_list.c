#include "daemon/source/build/builder_list.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_vector.h"

struct list {
    struct vector vector;
    uint64_t of;
    uint64_t *numbers;
};

static bool is_integer(uint32_t dtype) {
    return dtype >= DTYPE_U8 && dtype <= DTYPE_I64;
}

static int check_header(struct builder *builder, const struct list *list) {
    const struct array_header *header = &list->vector.header;
    const char *path = list->vector.file.path;
    char shape[DATASET_SHAPE_TEXT];
    if (header->dtype == DTYPE_BOOL)
        return builder_refuse(builder, -EINVAL, path,
                              "found a mask, wanted sample numbers; save numpy.flatnonzero(mask)");
    if (header->dimensions != 1 || !is_integer(header->dtype))
        return builder_refuse(
            builder, -EINVAL, path, "found %s%s, wanted an array of integers with one dimension",
            dtype_name(header->dtype), dataset_shape_text(header->dimensions, header->shape, shape));
    if (header->shape[0] > LIST_MAX_SAMPLES)
        return builder_refuse(builder, -EFBIG, path, "found %" PRIu64 " sample numbers, wanted at most %u",
                              header->shape[0], LIST_MAX_SAMPLES);
    return arrays_check_size(builder, &list->vector.file, header);
}

// One integer of that type; those below 0 come out as very large.
static uint64_t number_of(uint64_t word, uint32_t dtype) {
    switch (dtype) {
    case DTYPE_I8:
        return (uint64_t)(int8_t)word;
    case DTYPE_I16:
        return (uint64_t)(int16_t)word;
    case DTYPE_I32:
        return (uint64_t)(int32_t)word;
    default:
        return word;
    }
}

static int refuse_number(struct builder *builder, const struct list *list, uint64_t number, uint64_t place) {
    bool negative = list->vector.header.dtype != DTYPE_U64 && number >> 63;
    return builder_refuse(builder, -ERANGE, list->vector.file.path,
                          "found sample number %s%" PRIu64 " at index %" PRIu64
                          ", wanted numbers from 0 to %" PRIu64,
                          negative ? "-" : "", negative ? -number : number, place, list->of - 1);
}

static int read_some(struct builder *builder, const struct list *list, uint64_t place, uint32_t count) {
    uint64_t *numbers = list->numbers + place;
    int err = builder_vector_read(builder, &list->vector, place, count, numbers);
    if (err)
        return err;
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = number_of(numbers[i], list->vector.header.dtype);
        if (numbers[i] >= list->of)
            return refuse_number(builder, list, numbers[i], place + i);
    }
    return 0;
}

static int read_all(struct builder *builder, struct list *list, struct view_memory *numbers) {
    const uint64_t count = list->vector.header.shape[0];
    int err = view_memory_allocate(builder, "sample numbers", count * sizeof *list->numbers, numbers);
    if (err)
        return err;
    list->numbers = numbers->list->words;
    for (uint64_t place = 0; place < count && !err; place += VECTOR_AT_ONCE)
        err = read_some(builder, list, place, (uint32_t)min_u64(VECTOR_AT_ONCE, count - place));
    return err;
}

int builder_list(struct builder *builder, uint64_t of, struct view_memory *numbers, uint64_t *count) {
    struct list list = {.vector = {"its sample numbers", SOURCE_FILE_NONE, {0}}, .of = of};
    const char *key = builder->key;
    builder->key = "indices";
    int err = builder_vector_open(builder, builder->config->indices, &list.vector);
    if (!err)
        err = check_header(builder, &list);
    if (!err)
        err = read_all(builder, &list, numbers);
    if (!err) {
        *count = list.vector.header.shape[0];
        builder->key = key;
    }
    vector_release(&list.vector);
    return err;
}
