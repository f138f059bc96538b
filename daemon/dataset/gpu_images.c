#include "daemon/dataset/gpu_images.h"

#include <stdio.h>
#include <string.h>

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

const struct dataset_layout *gpu_images_layout(const struct dataset *dataset) {
    return dataset->sources ? dataset->sources[0]->layout : dataset->layout;
}

bool gpu_images_wanted(const struct dataset *dataset) {
    bool wanted = asks(dataset->layout);
    for (uint32_t i = 0; dataset->sources && i < dataset->layout->part_count; i++)
        wanted |= asks(dataset->sources[i]->layout);
    return wanted;
}

static bool is_finished_alike(const struct dataset_layout *left, const struct dataset_layout *right,
                              uint32_t field) {
    const struct image_steps *one = &left->images[field].steps, *other = &right->images[field].steps;
    const struct transform *values = &left->transforms[field];
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c): equal bits make equal bits
    return memcmp(values, &right->transforms[field], sizeof *values) == 0 && one->width == other->width &&
           one->height == other->height && one->channels == other->channels;
}

// Whatever finishes images must not need to know which source they come from.
static bool source_differs(const struct dataset *mix, uint32_t part, char *text, size_t bytes) {
    const struct dataset_layout *first = gpu_images_layout(mix), *layout = mix->sources[part]->layout;
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const bool decoded = gpu_images_has(layout, i);
        if (decoded != gpu_images_has(first, i))
            snprintf(text, bytes, "source %s %s decode gpu, unlike source %s", mix->sources[part]->name,
                     decoded ? "has" : "lacks", mix->sources[0]->name);
        else if (decoded && !is_finished_alike(first, layout, i))
            snprintf(text, bytes, "sources %s and %s have different steps on values", mix->sources[0]->name,
                     mix->sources[part]->name);
        else
            continue;
        return true;
    }
    return false;
}

bool gpu_images_obstacle(const struct dataset *dataset, char *text, size_t bytes) {
    const struct dataset_layout *layout = dataset->layout;
    if (layout->cache.fields) {
        snprintf(text, bytes, "the cache of %s keeps what loaders decode", dataset->name);
        return true;
    }
    for (uint32_t i = 0; i < layout->field_count; i++)
        if (layout->fields[i].ragged) {
            snprintf(text, bytes, "field %s is ragged", layout->fields[i].name);
            return true;
        }
    for (uint32_t i = 0; dataset->sources && i < layout->part_count; i++)
        if (gpu_images_obstacle(dataset->sources[i], text, bytes) || source_differs(dataset, i, text, bytes))
            return true;
    return false;
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
    return max_u64(align_up(IMAGE_RECORD_BYTES + most, AREA_ALIGN) - IMAGE_RECORD_BYTES,
                   layout->images[field].ring_area);
}

uint64_t gpu_images_mix_area(const struct dataset *mix, uint32_t field) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < mix->layout->part_count; i++)
        most = max_u64(most, gpu_images_ring_area(mix->sources[i]->layout, field));
    return most;
}

uint64_t gpu_images_pool_area(const struct dataset_layout *layout, uint32_t field) {
    return align_up(max_u64(pixels_of(layout, field), GPU_IMAGE_PIXELS + GPU_IMAGE_PIXELS / 2), AREA_ALIGN);
}

static void replace(struct ring_field *field, uint64_t area) {
    field->dtype = DTYPE_U8;
    field->dimensions = 1;
    field->sample_bytes = IMAGE_RECORD_BYTES + area;
    for (uint32_t k = 0; k < RING_MAX_DIMS; k++)
        field->shape[k] = k ? 0 : field->sample_bytes;
}

void gpu_images_in_ring(const struct dataset *dataset, struct ring_field *fields) {
    const struct dataset_layout *layout = gpu_images_layout(dataset);
    for (uint32_t i = 0; i < layout->field_count; i++)
        if (gpu_images_has(layout, i))
            replace(&fields[i],
                    dataset->sources ? gpu_images_mix_area(dataset, i) : gpu_images_ring_area(layout, i));
}

void gpu_images_in_pool(const struct dataset *dataset, struct ring_field *fields) {
    const struct dataset_layout *layout = gpu_images_layout(dataset);
    for (uint32_t i = 0; i < layout->field_count; i++)
        if (gpu_images_has(layout, i))
            replace(&fields[i], gpu_images_pool_area(layout, i));
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
