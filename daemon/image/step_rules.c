#include "daemon/image/step_rules.h"

#include <string.h>

#include "base/sizes.h"
#include "daemon/image/image.h"
#include "daemon/image/resize.h"

const struct form_rule image_forms[] = {
    [FORM_SIDES] = {1, 2, true, 1, IMAGE_MAX_SIDE, "a side of 1 to 65535 pixels"},
    [FORM_CHANCE] = {0, 1, false, 0, 1, "a probability of 0 to 1"},
    [FORM_FACTORS] = {1, 2, false, 0, 1e6f, "a factor of 0 to 1e6"},
    [FORM_HUE] = {1, 2, false, -0.5f, 0.5f, "a part of the circle of hues, -0.5 to 0.5"},
    [FORM_PADDING] = {1, 4, true, 0, IMAGE_MAX_SIDE, "a margin of 0 to 65535 pixels"},
    [FORM_OPERATIONS] = {0, 2, true, 0, 30, "a number of operations of 1 to 16, and a magnitude of 0 to 30"},
    [FORM_NONE] = {0, 0, false, 0, 0, "no number"},
};
_Static_assert(IMAGE_MAX_SIDE == 65535, "said above");

static const struct step_rule rules[] = {
    {"resize", IMAGE_RESIZE, FORM_SIDES, OPTION_FILTER, "resize N [M] [nearest|bilinear|bicubic]"},
    {"center_crop", IMAGE_CENTER_CROP, FORM_SIDES, 0, "center_crop N [M]"},
    {"random_crop", IMAGE_RANDOM_CROP, FORM_SIDES, OPTION_PADDING | OPTION_FILL,
     "random_crop N [M] [padding P] [fill V]"},
    {"random_resized_crop", IMAGE_RANDOM_RESIZED_CROP, FORM_SIDES, OPTION_FILTER | OPTION_AREA | OPTION_RATIO,
     "random_resized_crop N [M] [area A B] [ratio A B] [nearest|bilinear|bicubic]"},
    {"flip", IMAGE_FLIP, FORM_CHANCE, 0, "flip [P]"},
    {"vertical_flip", IMAGE_VERTICAL_FLIP, FORM_CHANCE, 0, "vertical_flip [P]"},
    {"pad", IMAGE_PAD, FORM_PADDING, OPTION_FILL, "pad N [fill V], or pad L T R B [fill V]"},
    {"brightness", IMAGE_BRIGHTNESS, FORM_FACTORS, 0, "brightness F, or brightness F G with F <= G"},
    {"contrast", IMAGE_CONTRAST, FORM_FACTORS, 0, "contrast F, or contrast F G with F <= G"},
    {"saturation", IMAGE_SATURATION, FORM_FACTORS, 0, "saturation F, or saturation F G with F <= G"},
    {"hue", IMAGE_HUE, FORM_HUE, 0, "hue F with F from 0 on, or hue F G with F <= G"},
    {"grayscale", IMAGE_GRAYSCALE, FORM_CHANCE, 0, "grayscale P"},
    {"erase", IMAGE_ERASE, FORM_CHANCE, OPTION_AREA | OPTION_RATIO | OPTION_FILL,
     "erase P [area A B] [ratio A B] [fill V]"},
    {"rand_augment", IMAGE_RAND_AUGMENT, FORM_OPERATIONS, OPTION_FILL, "rand_augment [N M] [fill V]"},
    {"trivial_augment_wide", IMAGE_TRIVIAL_AUGMENT_WIDE, FORM_NONE, OPTION_FILL,
     "trivial_augment_wide [fill V]"},
};

const struct step_rule *image_step_rule(const struct step_reader *words) {
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if (step_reader_is(words, rules[i].name))
            return &rules[i];
    return NULL;
}

const char *image_step_name(uint32_t kind) {
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if (rules[i].kind == kind)
            return rules[i].name;
    return "decode";
}

const char *image_step_known(size_t i) {
    static const char *const others[] = {"decode", "with"};
    if (i < COUNT_OF(rules))
        return rules[i].name;
    i -= COUNT_OF(rules);
    return i < COUNT_OF(others) ? others[i] : NULL;
}

void image_step_defaults(struct image_step *step) {
    static const float crops[] = {0.08f, 1, 3.0f / 4, 4.0f / 3}, erasures[] = {0.02f, 0.33f, 0.3f, 3.3f};
    if (step->kind == IMAGE_FLIP || step->kind == IMAGE_VERTICAL_FLIP)
        step->values[IMAGE_VALUE_CHANCE] = 0.5f;
    if (step->kind == IMAGE_RESIZE || step->kind == IMAGE_RANDOM_RESIZED_CROP)
        step->filter = IMAGE_BILINEAR;
    if (step->kind == IMAGE_RANDOM_RESIZED_CROP)
        memcpy(&step->values[IMAGE_VALUE_AREA], crops, sizeof crops);
    if (step->kind == IMAGE_ERASE)
        memcpy(&step->values[IMAGE_VALUE_AREA], erasures, sizeof erasures);
    if (step->kind == IMAGE_RAND_AUGMENT) {
        step->values[IMAGE_VALUE_COUNT] = 2;
        step->values[IMAGE_VALUE_LEVEL] = 9;
    }
}
