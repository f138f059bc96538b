// From the geometric steps, the size of an image and its random numbers to a plan: which pixels are needed, and what
// becomes of them. Pure arithmetic, version 1, the same on every machine.
#ifndef FEEDD_DAEMON_IMAGE_GEOMETRY_H
#define FEEDD_DAEMON_IMAGE_GEOMETRY_H

#include "base/error.h"
#include "daemon/image/random.h"
#include "daemon/image/resize.h"
#include "daemon/image/steps.h"

// One way through the pixels: what is cut out of the input is resized; a part of that, perhaps mirrored, is put
// somewhere into the output, and the rest of the output is filled. The steps of a transform are as few passes as give
// the same pixels: a step only begins another one if it resizes what has been resized, mirrored or filled up, or fills
// beside what has been filled with something else.
struct image_pass {
    struct image_rect crop;     // of the input. Pixels around it have no influence
    struct image_resize resize; // of the crop alone: its source has the crop's size, and the box is all of it
    // resize.part is what is kept. Its width is 0 if nothing is: then the output is filled, and the input irrelevant.
    bool resized;           // else resize only copies: its result has the size of its source
    bool mirrored;          // the part: left and right change places
    bool flipped;           // the part: top and bottom change places
    uint8_t fill[3];        // wherever the part is not; of one channel, the first
    uint32_t left, top;     // where the part lies in the output, after mirroring
    uint32_t width, height; // of the output
    // Of the input: where that begins which the pass before puts out. No more of it is needed.
    uint32_t from_x, from_y;
};

struct image_plan {
    uint32_t count; // at least 1; the first pass has all of the image as input
    struct image_pass passes[IMAGE_MAX_STEPS + 1u]; // one more for steps->side
};

// For an image of that size (as it is after any orientation). -EINVAL and a sentence if it is too small for a step, or
// too large after one: a side of more than IMAGE_MAX_SIDE or, if all of them are computed, more than IMAGE_MAX_PIXELS.
// `steps` has been fitted; steps of colours are passed over.
int image_plan_make(struct image_plan *plan, const struct image_steps *steps, uint32_t width, uint32_t height,
                    const struct image_place *place, struct error *error);

// Whether the part fills the output: nothing else of it is filled.
bool image_pass_is_full(const struct image_pass *pass);

#endif
