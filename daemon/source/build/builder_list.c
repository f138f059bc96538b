#include "daemon/source/build/builder_list.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/dataset/list_memory.h"
#include "daemon/source/build/builder_vector.h"

struct list {
    struct vector vector;
    uint64_t of;
    XXH3_state_t *hash;
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

static int write_all(struct builder *builder, const struct list *list, const void *bytes, size_t count,
                     uint64_t offset) {
    int err = list_memory_write(builder->dataset->list_fd, bytes, count, offset);
    if (!err)
        return 0;
    return builder_refuse(builder, err, list->vector.file.path,
                          "cannot keep its sample numbers in memory: %s", strerror(-err));
}

static int copy_some(struct builder *builder, struct list *list, uint64_t place, uint32_t count) {
    uint64_t numbers[VECTOR_AT_ONCE];
    int err = builder_vector_read(builder, &list->vector, place, count, numbers);
    if (err)
        return err;
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = number_of(numbers[i], list->vector.header.dtype);
        if (numbers[i] >= list->of)
            return refuse_number(builder, list, numbers[i], place + i);
    }
    XXH3_64bits_update(list->hash, numbers, count * sizeof *numbers);
    return write_all(builder, list, numbers, count * sizeof *numbers,
                     sizeof(struct dataset_list) + place * sizeof *numbers);
}

static int copy(struct builder *builder, struct list *list) {
    const uint64_t samples = list->vector.header.shape[0];
    const struct dataset_list head = {sizeof head + samples * sizeof(uint64_t)};
    int err = write_all(builder, list, &head, sizeof head, 0);
    for (uint64_t place = 0; place < samples && !err; place += VECTOR_AT_ONCE)
        err = copy_some(builder, list, place, (uint32_t)min_u64(VECTOR_AT_ONCE, samples - place));
    return err ? err : builder_vector_seal(builder, &list->vector);
}

static int read_list(struct builder *builder, struct list *list) {
    int err = check_header(builder, list);
    if (!err)
        err = builder_vector_allocate(builder, &list->vector);
    if (err)
        return err;
    list->hash = XXH3_createState();
    if (!list->hash)
        return builder_out_of_memory(builder);
    XXH3_64bits_reset(list->hash);
    return copy(builder, list);
}

int builder_list(struct builder *builder, uint64_t of, struct selection *selection) {
    struct list list = {.vector = {"its sample numbers", SOURCE_FILE_NONE, {0}}, .of = of};
    const char *key = builder->key;
    builder->key = "indices";
    int err = builder_vector_open(builder, builder->config->indices, &list.vector);
    if (!err)
        err = read_list(builder, &list);
    if (!err)
        *selection = (struct selection){.kind = SELECTION_LIST,
                                        .of = of,
                                        .count = list.vector.header.shape[0],
                                        .seed = XXH3_64bits_digest(list.hash)};
    if (!err)
        builder->key = key;
    XXH3_freeState(list.hash);
    vector_release(&list.vector);
    return err;
}
