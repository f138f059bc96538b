// The steps of a transform that change colours: what is done to an image, as its random numbers decide.
#ifndef FEEDD_DAEMON_IMAGE_COLOUR_STEPS_H
#define FEEDD_DAEMON_IMAGE_COLOUR_STEPS_H

#include "base/error.h"
#include "daemon/image/image.h"
#include "daemon/image/random.h"
#include "daemon/image/steps.h"

// Changes `image` in place by the steps that are not geometric, in order. -ENOMEM and a sentence.
int image_colour_steps_run(const struct image_steps *steps, const struct image_place *place,
                           struct image *image, struct error *error);

#endif
