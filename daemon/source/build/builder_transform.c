#include "daemon/source/build/builder_transform.h"

#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/source/build/builder_image.h"
#include "daemon/source/build/builder_index.h"

static int find_field(struct builder *builder, uint32_t *index) {
    const struct dataset_layout *layout = builder->dataset->layout;
    char names[256];
    size_t used = 0;
    for (uint32_t i = 0; i < layout->field_count; i++) {
        *index = i;
        if (strcmp(layout->fields[i].name, builder->transform->name) == 0)
            return 0;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                     layout->fields[i].name);
    }
    return builder_refuse(builder, -EINVAL, NULL, "found no field of that name, wanted one of %s", names);
}

static int add_transform(struct builder *builder) {
    struct dataset *dataset = builder->dataset;
    struct error error = {0};
    struct image_steps steps;
    const char *rest;
    uint32_t index = 0;
    int err = find_field(builder, &index);
    if (!err)
        err = builder_image_parse(builder, &steps, &rest);
    if (err)
        return err;
    struct ring_field *field = &dataset->layout->fields[index];
    struct transform *transform = &dataset->layout->transforms[index];
    // Before the size is: a misspelt step may be the one that was to fix it.
    err = transform_parse(rest, transform, &error);
    if (err)
        return builder_refuse(builder, err, NULL, "%s", error.text);
    if (image_steps_any(&steps))
        err = builder_image_fit(builder, index, &steps);
    else if (field->ragged)
        err = builder_refuse(builder, -EINVAL, NULL,
                             "found a ragged field, wanted one whose samples have a fixed shape: add pad.%s ="
                             " LENGTH, or decode if they are images",
                             field->name);
    if (err)
        return err;
    const struct image_steps *images = &dataset->layout->images[index].steps;
    if (dataset->layout->images[index].used)
        err = transform_fit_image(transform, images->height, images->width, images->channels, &error);
    else
        err = transform_fit(transform, field->dtype, field->dimensions, field->shape, &error);
    if (!err)
        err = gpu_images_check(&dataset->layout->images[index], transform, &error);
    if (err)
        return builder_refuse(builder, err, NULL, "%s", error.text);
    transform_shape(transform, &field->dimensions, field->shape);
    field->dtype = transform->target;
    field->sample_bytes = transform->elements * dtype_bytes(transform->target);
    dataset->transforms[index] = strdup(builder->transform->value);
    return dataset->transforms[index] ? 0 : builder_out_of_memory(builder);
}

int builder_check_transforms(struct builder *builder) {
    const struct dataset_config *config = builder->config;
    int err = 0;
    for (size_t i = 0; i < config->transform_count && !err; i++) {
        struct error error = {0};
        struct transform transform;
        struct image_steps steps;
        const char *rest;
        builder->transform = &config->transforms[i];
        err = builder_image_parse(builder, &steps, &rest);
        if (err)
            break;
        err = transform_parse(rest, &transform, &error);
        if (err)
            builder_refuse(builder, err, NULL, "%s", error.text);
    }
    builder->transform = NULL;
    return err;
}

int builder_transform(struct builder *builder) {
    const struct dataset_config *config = builder->config;
    int err = 0;
    for (size_t i = 0; i < config->transform_count && !err; i++) {
        builder->transform = &config->transforms[i];
        err = add_transform(builder);
    }
    builder->transform = NULL;
    builder_image_mark_columns(builder);
    if (!dataset_is_ragged(builder->dataset->layout))
        builder_index_unmap(builder); // nobody needs to know the sizes any more
    return err;
}
