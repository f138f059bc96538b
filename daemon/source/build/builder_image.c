#include "daemon/source/build/builder_image.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "daemon/image/image.h"
#include "daemon/image/resize.h"

int builder_image_parse(struct builder *builder, struct image_steps *steps, const char **rest) {
    struct error error = {0};
    int err = image_steps_parse(builder->transform->value, steps, rest, &error);
    return err ? builder_refuse(builder, err, NULL, "%s", error.text) : 0;
}

static bool stored_encoded(const struct dataset_layout *layout, uint32_t field) {
    const struct dataset_image *image = &layout->images[field];
    return image->used ? image->stored.encoded : layout->fields[field].ragged;
}

// With a cache, steps on encoded images begin from those that it keeps. `of` has the steps that are taken: those of the
// field, or of the one that it follows.
static void begin_from_cache(const struct builder *builder, const char *of, struct image_steps *steps) {
    const struct dataset_layout *layout = builder->dataset->layout;
    for (uint32_t i = 0; i < layout->field_count && builder->config->cache; i++)
        if (strcmp(layout->fields[i].name, of) == 0 && stored_encoded(layout, i)) {
            steps->side = (uint32_t)builder->config->cache_size;
            steps->side_filter = steps->with[0] ? IMAGE_NEAREST : IMAGE_BILINEAR;
        }
}

// `with FIELD` takes the steps that are configured for that field, whether or not its transform has been applied.
static int follow(struct builder *builder, struct image_steps *steps) {
    const struct dataset_config *config = builder->config;
    struct error error = {0};
    struct image_steps of;
    const char *rest;
    for (size_t i = 0; i < config->transform_count; i++) {
        if (strcmp(config->transforms[i].name, steps->with) != 0)
            continue;
        int err = image_steps_parse(config->transforms[i].value, &of, &rest, &error);
        if (!err)
            err = image_steps_follow(steps, &of, &error);
        return err ? builder_refuse(builder, err, NULL, "%s", error.text) : 0;
    }
    return builder_refuse(builder, -EINVAL, NULL,
                          "found \"with %s\", wanted a field that has image steps: there is no transform.%s",
                          steps->with, steps->with);
}

// Whether the field's samples are encoded images, or pixels, and of which shape.
static int describe_stored(struct builder *builder, const struct ring_field *field,
                           struct image_stored *stored) {
    char shape[DATASET_SHAPE_TEXT];
    const bool plain = field->dimensions == 2, coloured = field->dimensions == 3;
    *stored = (struct image_stored){.encoded = field->ragged};
    if (field->dtype == DTYPE_U8 && field->ragged)
        return 0;
    if (field->dtype == DTYPE_U8 && (plain || (coloured && (field->shape[2] == 1 || field->shape[2] == 3))) &&
        field->shape[0] <= IMAGE_MAX_SIDE && field->shape[1] <= IMAGE_MAX_SIDE) {
        stored->height = (uint32_t)field->shape[0];
        stored->width = (uint32_t)field->shape[1];
        stored->channels = coloured ? (uint32_t)field->shape[2] : 1;
        return 0;
    }
    return builder_refuse(builder, -EINVAL, NULL,
                          "found a field of %s%s, wanted encoded images, each of any number of bytes (u8"
                          " without pad.%s), or pixels of u8[H,W] or u8[H,W,3]",
                          dtype_name(field->dtype),
                          field->ragged ? "[]" : dataset_shape_text(field->dimensions, field->shape, shape),
                          field->name);
}

int builder_image_fit(struct builder *builder, uint32_t index, const struct image_steps *steps) {
    struct dataset_layout *layout = builder->dataset->layout;
    struct ring_field *field = &layout->fields[index];
    struct dataset_image *image = &layout->images[index];
    struct error error = {0};
    *image = (struct dataset_image){.used = 1, .steps = *steps};
    int err = steps->with[0] ? follow(builder, &image->steps) : 0;
    if (!err)
        err = describe_stored(builder, field, &image->stored);
    if (err)
        return err;
    begin_from_cache(builder, steps->with[0] ? steps->with : field->name, &image->steps);
    err = image_steps_fit(&image->steps, &image->stored, &error);
    if (err)
        return builder_refuse(builder, err, NULL, "%s", error.text);
    field->ragged = 0;
    field->dimensions = image->stored.encoded || field->dimensions == 3 ? 3 : 2;
    field->shape[0] = image->steps.height;
    field->shape[1] = image->steps.width;
    field->shape[2] = field->dimensions == 3 ? image->steps.channels : 0;
    return 0;
}

void builder_image_mark_columns(struct builder *builder) {
    struct dataset_layout *layout = builder->dataset->layout;
    for (uint32_t i = 0; i < layout->column_count; i++)
        layout->columns[i].varies = layout->images[layout->columns[i].field].stored.encoded;
}
