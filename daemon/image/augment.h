// RandAugment and TrivialAugmentWide: which operations an image gets, how strongly, and doing them.
//
// Operations and ranges of magnitudes are those of torchvision.transforms.v2, with its 31 magnitudes per range:
// number k of a range from `first` to `last` is fma(step, k, first), or fma(-step, 30 - k, last) from the middle on,
// with step = (last - first) / 30, all in float32.
//
//   operation           RandAugment         TrivialAugmentWide   either sign
//   identity            -                   -
//   shear_x, shear_y    0 .. 0.3            0 .. 0.99            yes
//   translate_x         0 .. 150/331 width  0 .. 32 pixels       yes
//   translate_y         0 .. 150/331 height 0 .. 32 pixels       yes
//   rotate              0 .. 30 degrees     0 .. 135 degrees     yes
//   brightness, color, contrast, sharpness: a factor of 1 + magnitude
//                       0 .. 0.9            0 .. 0.99            yes
//   posterize           8 .. 4 bits         8 .. 2 bits
//   solarize            1 .. 0 of 255       1 .. 0 of 255
//   autocontrast        -                   -
//   equalize            -                   -
//
// Everything here is a pure function and may run in any thread.
#ifndef FEEDD_DAEMON_IMAGE_AUGMENT_H
#define FEEDD_DAEMON_IMAGE_AUGMENT_H

#include <stdbool.h>

#include "daemon/image/image.h"
#include "order/philox.h"

#define IMAGE_AUGMENT_BINS    31u // magnitudes per range
#define IMAGE_AUGMENT_MAX_OPS 16u

enum image_augment_kind {
    IMAGE_AUGMENT_RAND,         // `count` operations, all with magnitude number `bin`
    IMAGE_AUGMENT_TRIVIAL_WIDE, // one operation with any magnitude
};

enum image_operation {
    IMAGE_OPERATION_IDENTITY,
    IMAGE_OPERATION_SHEAR_X,
    IMAGE_OPERATION_SHEAR_Y,
    IMAGE_OPERATION_TRANSLATE_X,
    IMAGE_OPERATION_TRANSLATE_Y,
    IMAGE_OPERATION_ROTATE,
    IMAGE_OPERATION_BRIGHTNESS,
    IMAGE_OPERATION_COLOR, // saturation
    IMAGE_OPERATION_CONTRAST,
    IMAGE_OPERATION_SHARPNESS,
    IMAGE_OPERATION_POSTERIZE,
    IMAGE_OPERATION_SOLARIZE,
    IMAGE_OPERATION_AUTOCONTRAST,
    IMAGE_OPERATION_EQUALIZE,
    IMAGE_OPERATION_COUNT
};

struct image_augment {
    uint32_t kind;
    uint32_t count; // 0 to IMAGE_AUGMENT_MAX_OPS; TrivialAugmentWide always does one
    uint32_t bin;   // 0 to IMAGE_AUGMENT_BINS - 1; TrivialAugmentWide draws it
};

struct image_augment_step {
    uint32_t operation;
    double magnitude; // with its sign; 0 if the operation has none
};

// Number `bin` of the operation's range, for an image of that size; without a sign.
double image_augment_magnitude(uint32_t kind, uint32_t operation, uint32_t bin, uint32_t width,
                               uint32_t height);

// Whether the operation's magnitude gets a sign.
bool image_augment_signed(uint32_t operation);

// The operations for an image of that size, into `steps`; returns how many. random[i] decides about operation i: word
// 0 chooses among IMAGE_OPERATION_COUNT operations, word 1 among the magnitudes (each by the high half of word *
// count, so that no choice is likelier than another by more than 2^-28 of its share), and the magnitude is negative
// if word 2 is below 2^31. Word 3 is not used.
uint32_t image_augment_choose(const struct image_augment *augment, uint32_t width, uint32_t height,
                              const struct philox_block *random,
                              struct image_augment_step steps[IMAGE_AUGMENT_MAX_OPS]);

// Bytes of scratch memory that image_augment_apply needs.
size_t image_augment_scratch(const struct image *image);

// Does the operations in place, one after another. `fill` has a value per channel, for what moves in from outside.
void image_augment_apply(struct image *image, uint8_t *scratch, const struct image_augment_step *steps,
                         uint32_t count, const uint8_t fill[3]);

#endif
