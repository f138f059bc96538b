// The image steps of a transform: what is done to the pixels of a field, as written in the configuration. Plain data
// that does not depend on where it lies: a part of a dataset's layout. docs/images.md has every step with its formula.
//
// `decode` and `with` are not kept as steps, but as flags, channels and a name. So a transform without a word of
// either can still be one of encoded images: what the field is decides that (daemon/image/steps_fit.h).
#ifndef FEEDD_DAEMON_IMAGE_STEPS_H
#define FEEDD_DAEMON_IMAGE_STEPS_H

#include "base/error.h"
#include "base/names.h"

#define IMAGE_MAX_STEPS  16u
#define IMAGE_MAX_VALUES 8u

enum image_step_kind {
    IMAGE_DECODE = 1,
    // Geometric: they decide which pixels are delivered, and where.
    IMAGE_RESIZE,
    IMAGE_CENTER_CROP,
    IMAGE_RANDOM_CROP,
    IMAGE_RANDOM_RESIZED_CROP,
    IMAGE_FLIP,
    IMAGE_VERTICAL_FLIP,
    IMAGE_PAD,
    // Of colours: they follow all geometric steps, and leave the size as it is.
    IMAGE_BRIGHTNESS,
    IMAGE_CONTRAST,
    IMAGE_SATURATION,
    IMAGE_HUE,
    IMAGE_GRAYSCALE,
    IMAGE_ERASE,
    IMAGE_RAND_AUGMENT,
    IMAGE_TRIVIAL_AUGMENT_WIDE,
};

// Flags of a step.
#define IMAGE_STEP_SHORTER 1u // resize: the shorter side becomes `width`, the longer one keeps the ratio
#define IMAGE_STEP_COLOURS 2u // the fill is written as three values

// Flags of all steps.
#define IMAGE_STEPS_DECODE 1u // `decode` is written
#define IMAGE_STEPS_FAST   2u // ... decode fast
#define IMAGE_STEPS_EXIF   4u // ... decode exif
#define IMAGE_STEPS_GPU    8u // ... decode gpu
#define IMAGE_STEPS_LABELS                                                                                   \
    16u // of an encoded mask without `gray` or `rgb`: its pixels are numbers, not levels

// Which of a step's values is what.
#define IMAGE_VALUE_CHANCE  0u // of flip, vertical_flip, grayscale and erase: 0 to 1
#define IMAGE_VALUE_LOWEST  0u // factor of brightness, contrast, saturation and hue
#define IMAGE_VALUE_HIGHEST 1u
#define IMAGE_VALUE_COUNT   0u // of rand_augment: how many operations
#define IMAGE_VALUE_LEVEL   1u // ... and their magnitude
#define IMAGE_VALUE_PADDING 0u // of pad and random_crop: left, top, right and bottom, whole numbers
#define IMAGE_VALUE_AREA    1u // of random_resized_crop and erase: least and greatest share of the image's area
#define IMAGE_VALUE_RATIO   3u // ... and ratio; of random_resized_crop width / height, of erase height / width
#define IMAGE_VALUE_FILL    5u // of whatever fills: three values of 0 to 255, equal where one is written

#define IMAGE_STEP_FIRST_COLOUR 32u

struct image_step {
    uint32_t kind;
    uint32_t filter;        // enum image_filter
    uint32_t width, height; // of resize, center_crop, random_crop, random_resized_crop; else 0
    uint32_t flags;
    uint32_t
        number; // of its random numbers: geometric steps from 0 on, others from IMAGE_STEP_FIRST_COLOUR on
    float values[IMAGE_MAX_VALUES];
};

struct image_steps {
    uint32_t count;
    uint32_t channels;      // delivered: 1 or 3; 0: not known before image_steps_fit
    uint32_t width, height; // delivered; 0: likewise
    uint32_t flags;
    // The steps begin from images whose shorter side has been resized to that, because a cache keeps those; 0: from
    // images as they are decoded. It is not a step: the random numbers of steps do not depend on it.
    uint32_t side, side_filter;
    uint32_t fill;                   // of `with FIELD fill V`: 0 to 255
    char with[NAME_LENGTH_MAX + 1u]; // the field whose geometry this one takes; "": none
    struct image_step steps[IMAGE_MAX_STEPS];
};

// Reads the image steps that `text` begins with. *rest, in `text`, is the first step that is none, or "" if all are:
// the value steps that follow. daemon/dataset/transform.h reads these, and refuses steps on images among them.
// -EINVAL and a sentence "found ..., wanted ...".
int image_steps_parse(const char *text, struct image_steps *steps, const char **rest, struct error *error);

// Whether there are any: if not, the transform is one of values alone.
bool image_steps_any(const struct image_steps *steps);

bool image_step_is_geometric(const struct image_step *step);

// "random_crop" and so on.
const char *image_step_name(uint32_t kind);

#endif
