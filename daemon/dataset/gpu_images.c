#include "daemon/dataset/gpu_images.h"

#include <stdio.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "shm/image_record.h"

#define AREA_ALIGN    256u
#define ELEMENT_BYTES 4u

bool gpu_images_has(const struct dataset_layout *layout, uint32_t field) {
    const struct dataset_image *image = &layout->images[field];
    return image->used && image->steps.flags & IMAGE_STEPS_GPU;
}

static bool asks(const struct dataset_layout *layout) {
    for (uint32_t i = 0; i < layout->field_count; i++)
        if (gpu_images_has(layout, i))
            return true;
    return false;
}

// The layout of a mix does not say how its sources decode.
bool gpu_images_wanted(const struct dataset *dataset) {
    bool wanted = asks(dataset->layout);
    for (uint32_t i = 0; dataset->sources && i < dataset->layout->part_count; i++)
        wanted |= asks(dataset->sources[i]->layout);
    return wanted;
}

bool gpu_images_obstacle(const struct dataset *dataset, char *text, size_t bytes) {
    const struct dataset_layout *layout = dataset->layout;
    uint32_t ragged = 0;
    while (ragged < layout->field_count && !layout->fields[ragged].ragged)
        ragged++;
    if (dataset->sources)
        snprintf(text, bytes, "engines decode no images of mixes");
    else if (layout->cache.fields)
        snprintf(text, bytes, "its cache keeps what loaders decode");
    else if (ragged < layout->field_count)
        snprintf(text, bytes, "field %s is ragged", layout->fields[ragged].name);
    else
        return false;
    return true;
}

bool gpu_images_possible(const struct dataset *dataset) {
    return gpu_images_wanted(dataset) && !gpu_images_obstacle(dataset, NULL, 0);
}

static uint64_t pixels_of(const struct dataset_layout *layout, uint32_t field) {
    const struct image_steps *steps = &layout->images[field].steps;
    return (uint64_t)steps->width * steps->height * steps->channels;
}

// Twice the mean, if that is known, and at most the largest.
static uint64_t stored_of(const struct dataset_layout *layout, uint32_t field) {
    for (uint32_t i = 0; i < layout->column_count; i++) {
        const struct dataset_column *column = &layout->columns[i];
        if (column->field == field && column->varies)
            return min_u64(column->bytes, 2 * min_u64(column->mean, UINT32_MAX));
    }
    return 0;
}

uint64_t gpu_images_ring_area(const struct dataset_layout *layout, uint32_t field) {
    uint64_t most = max_u64(pixels_of(layout, field), stored_of(layout, field));
    return align_up(IMAGE_RECORD_BYTES + most, AREA_ALIGN) - IMAGE_RECORD_BYTES;
}

uint64_t gpu_images_pool_area(const struct dataset_layout *layout, uint32_t field) {
    return align_up(max_u64(pixels_of(layout, field), GPU_IMAGE_PIXELS + GPU_IMAGE_PIXELS / 2), AREA_ALIGN);
}

static void replace(const struct dataset_layout *layout, struct ring_field *fields,
                    uint64_t area(const struct dataset_layout *layout, uint32_t field)) {
    for (uint32_t i = 0; i < layout->field_count; i++) {
        if (!gpu_images_has(layout, i))
            continue;
        struct ring_field *field = &fields[i];
        field->dtype = DTYPE_U8;
        field->dimensions = 1;
        field->sample_bytes = IMAGE_RECORD_BYTES + area(layout, i);
        for (uint32_t k = 0; k < RING_MAX_DIMS; k++)
            field->shape[k] = k ? 0 : field->sample_bytes;
    }
}

void gpu_images_in_ring(const struct dataset_layout *layout, struct ring_field *fields) {
    replace(layout, fields, gpu_images_ring_area);
}

void gpu_images_in_pool(const struct dataset_layout *layout, struct ring_field *fields) {
    replace(layout, fields, gpu_images_pool_area);
}

int gpu_images_check(const struct dataset_image *image, const struct transform *transform,
                     struct error *error) {
    if (!(image->steps.flags & IMAGE_STEPS_GPU))
        return 0;
    if (transform_is_of_values(transform) && dtype_bytes(transform->target) <= ELEMENT_BYTES)
        return 0;
    return error_set(error, -EINVAL,
                     "found decode gpu, wanted it without standardise, and with a type of at most 4 bytes");
}
