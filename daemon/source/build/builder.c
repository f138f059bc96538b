#include "daemon/source/build/builder.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/sentence.h"

void source_file_release(struct source_file *file) {
    close_fd(&file->fd);
    free(file->path);
    file->path = NULL;
}

int builder_refuse(struct builder *builder, int code, const char *path, const char *format, ...) {
    const struct dataset_config *config = builder->config;
    char sentence[sizeof builder->error->text];
    va_list arguments;
    va_start(arguments, format);
    sentence_format(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    const struct config_field *named = builder->transform ? builder->transform
                                       : builder->pad     ? builder->pad
                                                          : builder->field;
    char place[sizeof builder->error->text];
    config_place(config, named ? named->line : config_key_line(config, builder->key), place, sizeof place);
    return error_set(builder->error, code, "%s[%s %s] %s%s: %s%s%s", place, config_kind(config), config->name,
                     builder->transform ? "transform."
                     : builder->pad     ? "pad."
                     : named            ? "field."
                                        : "",
                     named ? named->name : builder->key, path ? path : "", path ? ": " : "", sentence);
}

int builder_out_of_memory(struct builder *builder) {
    return builder_refuse(builder, -ENOMEM, NULL, "out of memory");
}

// Computes the bytes of one sample; `field` has everything else.
static int set_sample_bytes(struct builder *builder, struct ring_field *field) {
    char shape[DATASET_SHAPE_TEXT];
    uint64_t bytes = dtype_bytes(field->dtype);
    bool overflow = false;
    for (uint32_t i = 0; i < field->dimensions; i++)
        overflow |= __builtin_mul_overflow(bytes, field->shape[i], &bytes);
    if (!overflow && bytes >= 1 && bytes <= BUILDER_MAX_SAMPLE_BYTES) {
        field->sample_bytes = bytes;
        return 0;
    }
    return builder_refuse(builder, -EINVAL, NULL, "found samples of %s%s, wanted from 1 byte to 1 GiB each",
                          dtype_name(field->dtype),
                          dataset_shape_text(field->dimensions, field->shape, shape));
}

static int name_field(struct builder *builder, const char *name, struct ring_field *field) {
    if (builder->dataset->layout->field_count == RING_MAX_FIELDS)
        return builder_refuse(builder, -EINVAL, NULL, "found too many fields, wanted at most %u",
                              RING_MAX_FIELDS);
    if (strlen(name) >= sizeof field->name)
        return builder_refuse(builder, -EINVAL, NULL, "found field name \"%s\", wanted at most %zu bytes",
                              name, sizeof field->name - 1);
    memcpy(field->name, name, strlen(name));
    return 0;
}

int builder_add_ragged_field(struct builder *builder, const char *name, uint32_t dtype) {
    struct dataset_layout *layout = builder->dataset->layout;
    struct ring_field field = {.dtype = dtype, .dimensions = 1, .ragged = 1};
    int err = name_field(builder, name, &field);
    if (!err)
        layout->fields[layout->field_count++] = field;
    return err;
}

int builder_add_field(struct builder *builder, const char *name, uint32_t dtype, uint32_t dimensions,
                      const uint64_t *shape, uint32_t *index) {
    struct dataset_layout *layout = builder->dataset->layout;
    struct ring_field field = {.dtype = dtype, .dimensions = dimensions};
    if (dimensions > RING_MAX_DIMS)
        return builder_refuse(builder, -EINVAL, NULL,
                              "found samples of %" PRIu32 " dimensions, wanted at most %u", dimensions,
                              RING_MAX_DIMS);
    if (dimensions)
        memcpy(field.shape, shape, dimensions * sizeof *shape);
    int err = name_field(builder, name, &field);
    if (!err)
        err = set_sample_bytes(builder, &field);
    if (err)
        return err;
    *index = layout->field_count;
    layout->fields[layout->field_count++] = field;
    return 0;
}

int builder_add_stream(struct builder *builder, uint64_t record_bytes) {
    struct dataset_layout *layout = builder->dataset->layout;
    if (layout->stream_count == DATASET_MAX_STREAMS)
        return builder_refuse(builder, -EINVAL, NULL, "found too many streams, wanted at most %u",
                              DATASET_MAX_STREAMS);
    layout->streams[layout->stream_count++] =
        (struct dataset_stream){.record_bytes = record_bytes, .first_file = layout->file_count};
    return 0;
}

void builder_add_extent(struct builder *builder, uint32_t field, uint64_t offset) {
    struct dataset_layout *layout = builder->dataset->layout;
    struct dataset_stream *stream = &layout->streams[layout->stream_count - 1];
    stream->extents[stream->extent_count++] = (struct dataset_extent){
        .field = field, .offset = offset, .bytes = layout->fields[field].sample_bytes};
}

static bool grow(void *array, size_t bytes) {
    void *grown = realloc(*(void **)array, bytes);
    if (grown)
        *(void **)array = grown;
    return grown != NULL;
}

static int make_room(struct builder *builder) {
    struct dataset *dataset = builder->dataset;
    if (dataset->layout->file_count < builder->file_room)
        return 0;
    if (dataset->layout->file_count == DATASET_MAX_FILES)
        return builder_refuse(builder, -EMFILE, NULL, "found too many files, wanted at most %u in a dataset",
                              DATASET_MAX_FILES);
    size_t room = builder->file_room ? builder->file_room * 2 : 4;
    if (!grow(&dataset->paths, room * sizeof *dataset->paths) ||
        !grow(&dataset->fds, room * sizeof *dataset->fds) ||
        !grow(&dataset->layout, sizeof *dataset->layout + room * sizeof *dataset->layout->files))
        return builder_out_of_memory(builder);
    builder->file_room = (uint32_t)room;
    return 0;
}

int builder_add_file(struct builder *builder, struct source_file *file, uint64_t data_offset,
                     uint64_t samples) {
    AUTO_SOURCE_FILE struct source_file taken = *file;
    *file = SOURCE_FILE_NONE;
    int err = make_room(builder);
    if (err)
        return err;
    struct dataset *dataset = builder->dataset;
    struct dataset_layout *layout = dataset->layout;
    struct dataset_stream *stream = &layout->streams[layout->stream_count - 1];
    uint64_t first = dataset_stream_samples(layout, stream), end;
    if (__builtin_add_overflow(first, samples, &end) || end > INT64_MAX)
        return builder_refuse(builder, -EOVERFLOW, taken.path, "found more than 2^63 samples");
    layout->files[layout->file_count] = (struct dataset_file){
        .first_sample = first, .samples = samples, .data_offset = data_offset, .bytes = taken.size};
    dataset->paths[layout->file_count] = taken.path;
    dataset->fds[layout->file_count] = taken.fd;
    layout->file_count++;
    stream->file_count++;
    taken = SOURCE_FILE_NONE;
    return 0;
}
