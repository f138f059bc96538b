// Pictures that tests draw, and operations on them by name.
#ifndef FEEDD_TESTS_UNIT_IMAGE_FIXTURE_H
#define FEEDD_TESTS_UNIT_IMAGE_FIXTURE_H

#include <string.h>

#include "base/sizes.h"
#include "daemon/image/affine.h"
#include "daemon/image/augment.h"
#include "daemon/image/colour.h"

struct image_call {
    struct image *image;
    uint8_t *scratch;
    const double *values;
    uint8_t fill[3];
};

typedef void run_function(struct image_call *call);

static void brightness(struct image_call *call) {
    image_brightness(call->image, call->values[0]);
}
static void contrast(struct image_call *call) {
    image_contrast(call->image, call->values[0]);
}
static void saturation(struct image_call *call) {
    image_saturation(call->image, call->values[0]);
}
static void hue(struct image_call *call) {
    image_hue(call->image, call->values[0]);
}
static void grayscale(struct image_call *call) {
    image_grayscale(call->image);
}
static void invert(struct image_call *call) {
    image_invert(call->image);
}
static void posterize(struct image_call *call) {
    image_posterize(call->image, (uint32_t)call->values[0]);
}
static void solarize(struct image_call *call) {
    image_solarize(call->image, call->values[0]);
}
static void autocontrast(struct image_call *call) {
    image_autocontrast(call->image);
}
static void equalize(struct image_call *call) {
    image_equalize(call->image);
}
static void sharpness(struct image_call *call) {
    image_sharpness(call->image, call->values[0], call->scratch);
}
static void shear_x(struct image_call *call) {
    image_shear_x(call->image, call->values[0], call->fill, call->scratch);
}
static void shear_y(struct image_call *call) {
    image_shear_y(call->image, call->values[0], call->fill, call->scratch);
}
static void rotate(struct image_call *call) {
    image_rotate(call->image, call->values[0], call->fill, call->scratch);
}
static void translate_x(struct image_call *call) {
    image_translate_x(call->image, (int64_t)call->values[0], call->fill);
}
static void translate_y(struct image_call *call) {
    image_translate_y(call->image, (int64_t)call->values[0], call->fill);
}
static void erase(struct image_call *call) {
    const double *at = call->values;
    const struct image_rect rect = {(uint32_t)at[0], (uint32_t)at[1], (uint32_t)at[2], (uint32_t)at[3]};
    image_erase(call->image, rect, call->fill);
}
static void augment(struct image_call *call) {
    const struct image_augment_step step = {(uint32_t)call->values[0], call->values[1]};
    image_augment_apply(call->image, call->scratch, &step, 1, call->fill);
}

static const struct {
    const char *name;
    run_function *run;
} image_operations[] = {
    {"brightness", brightness},
    {"contrast", contrast},
    {"saturation", saturation},
    {"hue", hue},
    {"grayscale", grayscale},
    {"invert", invert},
    {"posterize", posterize},
    {"solarize", solarize},
    {"autocontrast", autocontrast},
    {"equalize", equalize},
    {"sharpness", sharpness},
    {"shear_x", shear_x},
    {"shear_y", shear_y},
    {"rotate", rotate},
    {"translate_x", translate_x},
    {"translate_y", translate_y},
    {"erase", erase},
    {"augment", augment},
};

// Bytes of a linear congruential generator, from 20 to 219; tests/python/colour_vectors.py draws them too.
static inline void image_draw(uint8_t *bytes, size_t count) {
    uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(20 + (state >> 24) * 200 / 256);
    }
}

// FNV-1a, 64 bits.
static inline uint64_t image_checksum(const uint8_t *bytes, size_t count) {
    uint64_t value = 0xcbf29ce484222325;
    for (size_t i = 0; i < count; i++)
        value = (value ^ bytes[i]) * 0x100000001b3;
    return value;
}

#endif
