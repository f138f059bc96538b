// Transforms that begin with steps on images: from encoded images of any size, or stored pixels, to images of one
// shape.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_IMAGE_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_IMAGE_H

#include "daemon/source/build/builder.h"

// Reads the image steps of the transform at work (builder->transform); *rest is what follows them. If there are none,
// all of it, and *steps has none.
int builder_image_parse(struct builder *builder, struct image_steps *steps, const char **rest);

// Makes `field` of the layout one with these steps: of the shape [H,W] or [H,W,C] that they deliver.
int builder_image_fit(struct builder *builder, uint32_t field, const struct image_steps *steps);

// Once the dataset has an index: marks the columns of encoded images.
void builder_image_mark_columns(struct builder *builder);

#endif
