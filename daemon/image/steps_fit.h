// Image steps that have been read become steps of a certain field.
#ifndef FEEDD_DAEMON_IMAGE_STEPS_FIT_H
#define FEEDD_DAEMON_IMAGE_STEPS_FIT_H

#include "base/error.h"
#include "daemon/image/steps.h"

// What is known of a field when its dataset is opened.
struct image_stored {
    bool encoded;                     // samples are files of images; else pixels, of these sizes
    uint32_t width, height, channels; // 0 if encoded
};

// Completes steps for such a field: the channels and the size that are delivered. -EINVAL and a sentence, "found ...,
// wanted ...", if the size would depend on the sample, or no image of that size can take these steps.
int image_steps_fit(struct image_steps *steps, const struct image_stored *stored, struct error *error);

// Gives steps that begin `with FIELD` the geometric steps of that field, which have been parsed: the same random
// numbers, nearest pixels, and their own fill. -EINVAL and a sentence.
int image_steps_follow(struct image_steps *steps, const struct image_steps *of, struct error *error);

#endif
