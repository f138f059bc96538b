// Geometric steps the slow way: every step makes a whole image of the one before, by torchvision's definitions.
#ifndef FEEDD_TESTS_UNIT_IMAGE_SLOWLY_H
#define FEEDD_TESTS_UNIT_IMAGE_SLOWLY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/image/geometry.h"
#include "daemon/image/parameters.h"

#define CHANNELS 3u
#define POISON   0xa5

static struct image_resizer *resizer;
static struct image new_image(uint32_t width, uint32_t height) {
    struct image image = {NULL, width, height, CHANNELS, (size_t)width * CHANNELS};
    image.pixels = malloc(image.stride * height);
    assert_non_null(image.pixels);
    memset(image.pixels, POISON, image.stride * height);
    return image;
}

static uint8_t *pixel(const struct image *image, uint32_t x, uint32_t y) {
    assert_true(x < image->width && y < image->height);
    return image->pixels + y * image->stride + (size_t)x * CHANNELS;
}

static void resize_into(const struct image_resize *resize, const struct image *from, struct image_rect rect,
                        struct image *to) {
    struct error error = {0};
    if (image_resize_run(resizer, resize, from, rect, to, &error))
        fail_msg("%s", error.text);
}

// The rectangle from (x, y) on, which may reach beyond the image: there it is filled.
static struct image slow_window(const struct image *from, int64_t x, int64_t y, uint32_t width,
                                uint32_t height, const float *fill) {
    struct image to = new_image(width, height);
    for (uint32_t row = 0; row < height; row++)
        for (uint32_t column = 0; column < width; column++)
            for (uint32_t channel = 0; channel < CHANNELS; channel++) {
                const int64_t at_x = x + column, at_y = y + row;
                const bool inside = at_x >= 0 && at_y >= 0 && at_x < from->width && at_y < from->height;
                pixel(&to, column, row)[channel] =
                    inside ? pixel(from, (uint32_t)at_x, (uint32_t)at_y)[channel] : (uint8_t)fill[channel];
            }
    return to;
}

static struct image slow_mirror(const struct image *from, bool horizontal, bool vertical) {
    struct image to = new_image(from->width, from->height);
    for (uint32_t y = 0; y < to.height; y++)
        for (uint32_t x = 0; x < to.width; x++)
            memcpy(pixel(&to, x, y),
                   pixel(from, horizontal ? to.width - 1 - x : x, vertical ? to.height - 1 - y : y),
                   CHANNELS);
    return to;
}

static struct image slow_resize(const struct image *from, uint32_t width, uint32_t height, uint32_t filter) {
    struct image to = new_image(width, height);
    const struct image_resize resize = {.source_width = from->width,
                                        .source_height = from->height,
                                        .box = {0, 0, from->width, from->height},
                                        .width = width,
                                        .height = height,
                                        .filter = filter,
                                        .part = {0, 0, width, height}};
    resize_into(&resize, from, (struct image_rect){0, 0, from->width, from->height}, &to);
    return to;
}

// As torchvision has it: margins first where the image is too small, then Python's round() of half the difference.
static struct image slow_center_crop(const struct image *from, const struct image_step *step) {
    static const float black[3] = {0};
    static const int64_t rounded[4] = {0, 0, 1, 2}; // of 0/2, 1/2, 2/2, 3/2
    const int64_t wide = (int64_t)step->width - from->width, high = (int64_t)step->height - from->height;
    const int64_t x = wide > 0 ? -(wide / 2) : -wide / 4 * 2 + rounded[-wide % 4];
    const int64_t y = high > 0 ? -(high / 2) : -high / 4 * 2 + rounded[-high % 4];
    return slow_window(from, x, y, step->width, step->height, black);
}

// An empty image where the step refuses this one.
static struct image slow_random_crop(const struct image *from, const struct image_step *step,
                                     struct image_random *random) {
    const float *margins = &step->values[IMAGE_VALUE_PADDING], *fill = &step->values[IMAGE_VALUE_FILL];
    const uint32_t width = from->width + (uint32_t)(margins[0] + margins[2]);
    const uint32_t height = from->height + (uint32_t)(margins[1] + margins[3]);
    if (width < step->width || height < step->height)
        return (struct image){0};
    const int64_t y = image_random_below(random, height - step->height + 1) - (int64_t)margins[1];
    const int64_t x = image_random_below(random, width - step->width + 1) - (int64_t)margins[0];
    return slow_window(from, x, y, step->width, step->height, fill);
}

static struct image slow_resize_step(const struct image *from, const struct image_step *step) {
    if (!(step->flags & IMAGE_STEP_SHORTER))
        return slow_resize(from, step->width, step->height, step->filter);
    // torchvision: int(size * long / short), in float64
    const double size = step->width;
    return from->width <= from->height
               ? slow_resize(from, step->width, (uint32_t)(size * from->height / from->width), step->filter)
               : slow_resize(from, (uint32_t)(size * from->width / from->height), step->width, step->filter);
}

static struct image slow_random_resized_crop(const struct image *from, const struct image_step *step,
                                             struct image_random *random) {
    struct image_rect crop;
    image_random_crop(step, random, from->width, from->height, &crop);
    struct image cut = slow_window(from, crop.x, crop.y, crop.width, crop.height, (float[3]){0});
    struct image to = slow_resize(&cut, step->width, step->height, step->filter);
    free(cut.pixels);
    return to;
}

static struct image slow_step(const struct image *from, const struct image_step *step,
                              const struct image_place *place) {
    const float *margins = &step->values[IMAGE_VALUE_PADDING];
    struct image_random random;
    image_random_begin(&random, place, step->number);
    switch (step->kind) {
    case IMAGE_RESIZE:
        return slow_resize_step(from, step);
    case IMAGE_CENTER_CROP:
        return slow_center_crop(from, step);
    case IMAGE_RANDOM_CROP:
        return slow_random_crop(from, step, &random);
    case IMAGE_RANDOM_RESIZED_CROP:
        return slow_random_resized_crop(from, step, &random);
    case IMAGE_FLIP:
        return slow_mirror(from, image_random_happens(step, &random), false);
    case IMAGE_VERTICAL_FLIP:
        return slow_mirror(from, false, image_random_happens(step, &random));
    default:
        return slow_window(from, -(int64_t)margins[0], -(int64_t)margins[1],
                           from->width + (uint32_t)(margins[0] + margins[2]),
                           from->height + (uint32_t)(margins[1] + margins[3]),
                           &step->values[IMAGE_VALUE_FILL]);
    }
}

static struct image run_slowly(const struct image_steps *steps, const struct image *image,
                               const struct image_place *place) {
    struct image now = slow_mirror(image, false, false);
    for (uint32_t i = 0; i < steps->count && now.pixels; i++) {
        struct image next = slow_step(&now, &steps->steps[i], place);
        free(now.pixels);
        now = next;
    }
    return now;
}

#endif
