#include "daemon/source/build/arrays.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/scope.h"

int arrays_check_dimensions(struct builder *builder, const struct source_file *file, uint64_t dimensions) {
    if (dimensions >= 1 && dimensions <= 1 + RING_MAX_DIMS)
        return 0;
    return builder_refuse(builder, -EINVAL, file->path,
                          "found an array of %" PRIu64
                          " dimensions, wanted 1 to %u, of which the first counts samples",
                          dimensions, 1 + RING_MAX_DIMS);
}

int arrays_check_size(struct builder *builder, const struct source_file *file,
                      const struct array_header *header) {
    char shape[DATASET_SHAPE_TEXT];
    uint64_t bytes = dtype_bytes(header->dtype);
    bool overflow = false;
    for (uint32_t i = 0; i < header->dimensions; i++)
        overflow |= __builtin_mul_overflow(bytes, header->shape[i], &bytes);
    uint64_t found = file->size > header->data_offset ? file->size - header->data_offset : 0;
    dataset_shape_text(header->dimensions, header->shape, shape);
    if (overflow)
        return builder_refuse(builder, -EOVERFLOW, file->path,
                              "found a header that says %s%s, which is more than 2^64 bytes, and %" PRIu64
                              " bytes of data",
                              dtype_name(header->dtype), shape, found);
    if (bytes == 0)
        return builder_refuse(builder, -EINVAL, file->path,
                              "found %s%s, wanted at least one sample of one byte", dtype_name(header->dtype),
                              shape);
    if (bytes != found)
        return builder_refuse(builder, -EINVAL, file->path,
                              "found %" PRIu64 " bytes of data, wanted %" PRIu64
                              ", because the header says %s%s",
                              found, bytes, dtype_name(header->dtype), shape);
    return 0;
}

static int check_same(struct builder *builder, const struct source_file *file,
                      const struct array_header *header, const struct array_header *first,
                      const char *first_path) {
    char found[DATASET_SHAPE_TEXT], wanted[DATASET_SHAPE_TEXT];
    if (header->dtype == first->dtype && header->dimensions == first->dimensions &&
        memcmp(&header->shape[1], &first->shape[1], (first->dimensions - 1) * sizeof first->shape[0]) == 0)
        return 0;
    return builder_refuse(builder, -EINVAL, file->path, "found samples of %s%s, wanted %s%s as in %s",
                          dtype_name(header->dtype),
                          dataset_shape_text(header->dimensions - 1, &header->shape[1], found),
                          dtype_name(first->dtype),
                          dataset_shape_text(first->dimensions - 1, &first->shape[1], wanted), first_path);
}

// The first file of a field defines the field.
static int begin_field(struct builder *builder, const struct array_header *header) {
    uint32_t field;
    int err = builder_add_field(builder, builder->field->name, header->dtype, header->dimensions - 1,
                                &header->shape[1], &field);
    if (!err)
        err = builder_add_stream(builder, builder->dataset->layout->fields[field].sample_bytes);
    if (!err)
        builder_add_extent(builder, field, 0);
    return err;
}

static int add_file(struct builder *builder, array_read_header *read_header, const struct path_list *list,
                    size_t index, struct array_header *first) {
    AUTO_SOURCE_FILE struct source_file file = SOURCE_FILE_NONE;
    struct array_header header = {0};
    int err = builder_open(builder, list->paths[index], &file);
    if (!err)
        err = read_header(builder, &file, &header);
    if (!err)
        err = arrays_check_size(builder, &file, &header);
    if (err)
        return err;
    if (index == 0) {
        *first = header;
        err = begin_field(builder, &header);
    } else {
        err = check_same(builder, &file, &header, first, list->paths[0]);
    }
    return err ? err : builder_add_file(builder, &file, header.data_offset, header.shape[0]);
}

static int add_field(struct builder *builder, array_read_header *read_header) {
    AUTO_PATHS struct path_list list = {0};
    struct array_header first;
    int err = builder_expand(builder, builder->field->value, &list);
    for (size_t i = 0; i < list.count && !err; i++)
        err = add_file(builder, read_header, &list, i, &first);
    return err;
}

int arrays_open(struct builder *builder, array_read_header *read_header) {
    const struct dataset_config *config = builder->config;
    int err = 0;
    for (size_t i = 0; i < config->field_count && !err; i++) {
        builder->field = &config->fields[i];
        err = add_field(builder, read_header);
    }
    return err;
}
