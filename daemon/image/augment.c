#include "daemon/image/augment.h"

#include <math.h>

#include "daemon/image/affine.h"
#include "daemon/image/colour.h"

// The greatest magnitude of an operation; the least is 0 where it is a plain range.
static const double greatest[2][IMAGE_OPERATION_COUNT] = {
    [IMAGE_AUGMENT_RAND] =
        {
            [IMAGE_OPERATION_SHEAR_X] = 0.3,
            [IMAGE_OPERATION_SHEAR_Y] = 0.3,
            [IMAGE_OPERATION_TRANSLATE_X] = 150.0 / 331.0, // of the width
            [IMAGE_OPERATION_TRANSLATE_Y] = 150.0 / 331.0,
            [IMAGE_OPERATION_ROTATE] = 30,
            [IMAGE_OPERATION_BRIGHTNESS] = 0.9,
            [IMAGE_OPERATION_COLOR] = 0.9,
            [IMAGE_OPERATION_CONTRAST] = 0.9,
            [IMAGE_OPERATION_SHARPNESS] = 0.9,
            [IMAGE_OPERATION_POSTERIZE] = 4, // bits that are lost
        },
    [IMAGE_AUGMENT_TRIVIAL_WIDE] =
        {
            [IMAGE_OPERATION_SHEAR_X] = 0.99,
            [IMAGE_OPERATION_SHEAR_Y] = 0.99,
            [IMAGE_OPERATION_TRANSLATE_X] = 32,
            [IMAGE_OPERATION_TRANSLATE_Y] = 32,
            [IMAGE_OPERATION_ROTATE] = 135,
            [IMAGE_OPERATION_BRIGHTNESS] = 0.99,
            [IMAGE_OPERATION_COLOR] = 0.99,
            [IMAGE_OPERATION_CONTRAST] = 0.99,
            [IMAGE_OPERATION_SHARPNESS] = 0.99,
            [IMAGE_OPERATION_POSTERIZE] = 6,
        },
};

#define LAST_BIN (IMAGE_AUGMENT_BINS - 1)

static float in_range(float first, float last, uint32_t bin) {
    const float step = (last - first) / (float)LAST_BIN;
    return bin < IMAGE_AUGMENT_BINS / 2 ? fmaf(step, (float)bin, first)
                                        : fmaf(-step, (float)(LAST_BIN - bin), last);
}

double image_augment_magnitude(uint32_t kind, uint32_t operation, uint32_t bin, uint32_t width,
                               uint32_t height) {
    const double last = greatest[kind][operation];
    switch (operation) {
    case IMAGE_OPERATION_IDENTITY:
    case IMAGE_OPERATION_AUTOCONTRAST:
    case IMAGE_OPERATION_EQUALIZE:
        return 0;
    case IMAGE_OPERATION_TRANSLATE_X:
        return in_range(0, (float)(kind == IMAGE_AUGMENT_RAND ? last * width : last), bin);
    case IMAGE_OPERATION_TRANSLATE_Y:
        return in_range(0, (float)(kind == IMAGE_AUGMENT_RAND ? last * height : last), bin);
    case IMAGE_OPERATION_POSTERIZE: // whole bits, ties to even
        return rintf(8.0f - (float)bin / (float)(LAST_BIN / last));
    case IMAGE_OPERATION_SOLARIZE:
        return in_range(1, 0, bin);
    default:
        return in_range(0, (float)last, bin);
    }
}

bool image_augment_signed(uint32_t operation) {
    return operation >= IMAGE_OPERATION_SHEAR_X && operation <= IMAGE_OPERATION_SHARPNESS;
}

static uint32_t choose(uint32_t word, uint32_t count) {
    return (uint32_t)((uint64_t)word * count >> 32);
}

uint32_t image_augment_choose(const struct image_augment *augment, uint32_t width, uint32_t height,
                              const struct philox_block *random,
                              struct image_augment_step steps[IMAGE_AUGMENT_MAX_OPS]) {
    const bool trivial = augment->kind == IMAGE_AUGMENT_TRIVIAL_WIDE;
    const uint32_t count = trivial ? 1 : augment->count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t operation = choose(random[i].word[0], IMAGE_OPERATION_COUNT);
        const uint32_t bin = trivial ? choose(random[i].word[1], IMAGE_AUGMENT_BINS) : augment->bin;
        const double magnitude = image_augment_magnitude(augment->kind, operation, bin, width, height);
        const bool negative = image_augment_signed(operation) && random[i].word[2] < 1u << 31;
        steps[i] = (struct image_augment_step){operation, negative ? -magnitude : magnitude};
    }
    return count;
}

size_t image_augment_scratch(const struct image *image) {
    return (size_t)image->width * image->height * image->channels;
}

static void apply(struct image *image, uint8_t *scratch, uint32_t operation, double magnitude,
                  const uint8_t fill[3]) {
    switch (operation) {
    case IMAGE_OPERATION_SHEAR_X:
        image_shear_x(image, magnitude, fill, scratch);
        return;
    case IMAGE_OPERATION_SHEAR_Y:
        image_shear_y(image, magnitude, fill, scratch);
        return;
    case IMAGE_OPERATION_TRANSLATE_X:
        image_translate_x(image, (int64_t)magnitude, fill);
        return;
    case IMAGE_OPERATION_TRANSLATE_Y:
        image_translate_y(image, (int64_t)magnitude, fill);
        return;
    case IMAGE_OPERATION_ROTATE:
        image_rotate(image, magnitude, fill, scratch);
        return;
    case IMAGE_OPERATION_BRIGHTNESS:
        image_brightness(image, 1.0 + magnitude);
        return;
    case IMAGE_OPERATION_COLOR:
        image_saturation(image, 1.0 + magnitude);
        return;
    case IMAGE_OPERATION_CONTRAST:
        image_contrast(image, 1.0 + magnitude);
        return;
    case IMAGE_OPERATION_SHARPNESS:
        image_sharpness(image, 1.0 + magnitude, scratch);
        return;
    case IMAGE_OPERATION_POSTERIZE:
        image_posterize(image, (uint32_t)magnitude);
        return;
    case IMAGE_OPERATION_SOLARIZE:
        image_solarize(image, 255.0 * magnitude);
        return;
    case IMAGE_OPERATION_AUTOCONTRAST:
        image_autocontrast(image);
        return;
    case IMAGE_OPERATION_EQUALIZE:
        image_equalize(image);
        return;
    default: // identity
        return;
    }
}

void image_augment_apply(struct image *image, uint8_t *scratch, const struct image_augment_step *steps,
                         uint32_t count, const uint8_t fill[3]) {
    for (uint32_t i = 0; i < count; i++)
        apply(image, scratch, steps[i].operation, steps[i].magnitude, fill);
}
