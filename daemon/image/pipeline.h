// One image, from what is stored to what is delivered: which pixels are needed is computed first, only those are
// decoded, and they are resized, cut, changed in colour and written in one go. No step makes a copy of the whole image
// that the next one does not need.
#ifndef FEEDD_DAEMON_IMAGE_PIPELINE_H
#define FEEDD_DAEMON_IMAGE_PIPELINE_H

#include "base/error.h"
#include "daemon/image/finish.h"
#include "daemon/image/geometry.h"
#include "daemon/image/random.h"
#include "daemon/image/steps_fit.h"

// Scratch memory that is reused. One thread at a time.
struct image_pipeline;

// `steps` have been fitted to `stored` and outlive the pipeline, as the table in `finish` does; the mirror in there is
// ignored. -ENOMEM, or what a decoder cannot be made for, and a sentence.
int image_pipeline_open(struct image_pipeline **pipeline, const struct image_steps *steps,
                        const struct image_stored *stored, const struct image_finish *finish,
                        struct error *error);
// NULL is fine.
void image_pipeline_close(struct image_pipeline *pipeline);

// Makes what is delivered of a sample, of which `bytes` are stored, at `place`. `slot` has room for an image of the
// size that the steps deliver, at any alignment, and is written from front to back; after an error, it may hold
// anything. Errors, with a sentence: those of image_decode (codec.h), and -EINVAL if the image is too small or too
// large for a step.
int image_pipeline_run(struct image_pipeline *pipeline, const uint8_t *bytes, size_t count,
                       const struct image_place *place, void *slot, struct error *error);

// The two halves of the same, for steps with a side (steps.h): what is delivered is equal, bit for bit. `keep` is given
// the whole image of that side, which it may copy, before the steps begin from it.
typedef void image_keep(void *context, const struct image *image);
int image_pipeline_run_and_keep(struct image_pipeline *pipeline, const uint8_t *bytes, size_t count,
                                const struct image_place *place, void *slot, image_keep *keep, void *context,
                                struct error *error);

// From an image that was kept. Its pixels are only read, and may change meanwhile, which changes what is delivered.
int image_pipeline_run_kept(struct image_pipeline *pipeline, const struct image *image,
                            const struct image_place *place, void *slot, struct error *error);

#endif
