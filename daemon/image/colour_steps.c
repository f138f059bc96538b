#include "daemon/image/colour_steps.h"

#include <stdlib.h>

#include "base/sizes.h"
#include "daemon/image/augment.h"
#include "daemon/image/colour.h"
#include "daemon/image/parameters.h"

static void copy_fill(const struct image_step *step, uint8_t fill[3]) {
    for (uint32_t i = 0; i < 3; i++)
        fill[i] = (uint8_t)step->values[IMAGE_VALUE_FILL + i];
}

static void erase(const struct image_step *step, struct image_random *random, struct image *image) {
    uint8_t fill[3];
    struct image_rect rect;
    copy_fill(step, fill);
    if (!image_random_happens(step, random))
        return;
    image_random_erasure(step, random, image->width, image->height, &rect);
    image_erase(image, rect, fill);
}

// Operation i gets two numbers: words 0 and 1, then 2 and 3, low halves first.
static void draw_blocks(struct image_random *random, struct philox_block blocks[IMAGE_AUGMENT_MAX_OPS],
                        uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t half = 0; half < 2; half++) {
            const uint64_t bits = image_random_bits(random);
            blocks[i].word[2 * half] = (uint32_t)bits;
            blocks[i].word[2 * half + 1] = (uint32_t)(bits >> 32);
        }
}

static int augment(const struct image_step *step, struct image_random *random, struct image *image,
                   struct error *error) {
    const bool rand = step->kind == IMAGE_RAND_AUGMENT;
    const struct image_augment augment = {
        .kind = rand ? IMAGE_AUGMENT_RAND : IMAGE_AUGMENT_TRIVIAL_WIDE,
        .count = rand ? (uint32_t)step->values[IMAGE_VALUE_COUNT] : 1,
        .bin = rand ? (uint32_t)step->values[IMAGE_VALUE_LEVEL] : 0,
    };
    struct philox_block blocks[IMAGE_AUGMENT_MAX_OPS];
    struct image_augment_step chosen[IMAGE_AUGMENT_MAX_OPS];
    uint8_t fill[3];
    AUTO_FREE uint8_t *scratch = malloc(max_u64(image_augment_scratch(image), 1));
    if (!scratch)
        return error_set(error, -ENOMEM, "no memory for %s", image_step_name(step->kind));
    draw_blocks(random, blocks, augment.count);
    copy_fill(step, fill);
    const uint32_t count = image_augment_choose(&augment, image->width, image->height, blocks, chosen);
    image_augment_apply(image, scratch, chosen, count, fill);
    return 0;
}

static int run_step(const struct image_step *step, struct image_random *random, struct image *image,
                    struct error *error) {
    switch (step->kind) {
    case IMAGE_BRIGHTNESS:
        image_brightness(image, image_random_factor(step, random));
        return 0;
    case IMAGE_CONTRAST:
        image_contrast(image, image_random_factor(step, random));
        return 0;
    case IMAGE_SATURATION:
        image_saturation(image, image_random_factor(step, random));
        return 0;
    case IMAGE_HUE:
        image_hue(image, image_random_factor(step, random));
        return 0;
    case IMAGE_GRAYSCALE:
        if (image_random_happens(step, random))
            image_grayscale(image);
        return 0;
    case IMAGE_ERASE:
        erase(step, random, image);
        return 0;
    default:
        return augment(step, random, image, error);
    }
}

int image_colour_steps_run(const struct image_steps *steps, const struct image_place *place,
                           struct image *image, struct error *error) {
    int err = 0;
    for (uint32_t i = 0; i < steps->count && !err; i++) {
        const struct image_step *step = &steps->steps[i];
        struct image_random random;
        if (image_step_is_geometric(step))
            continue;
        image_random_begin(&random, place, step->number);
        err = run_step(step, &random, image, error);
    }
    return err;
}
