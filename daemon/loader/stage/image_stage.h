// Images: decoded if they are encoded, cut, resized, changed in colour; then the transform of their values.
#ifndef FEEDD_DAEMON_LOADER_STAGE_IMAGE_STAGE_H
#define FEEDD_DAEMON_LOADER_STAGE_IMAGE_STAGE_H

#include "daemon/dataset/dataset.h"
#include "daemon/loader/stage/stage.h"

// `image` and `transform`, which is of the pixels that the image's steps make, must outlive it. -EINVAL when they do
// not deliver `delivered_bytes`.
int image_stage_open(const struct dataset_image *image, const struct transform *transform,
                     uint64_t delivered_bytes, struct stage **stage, struct error *error);

// Says which field of which layout, which must outlive it, the stage is of. A mask is then compared with the image
// whose steps it takes (mask_size.h).
void image_stage_use_layout(struct stage *stage, const struct dataset_layout *layout, uint32_t field);

// Has the stage of a field that its layout's cache keeps take samples from `cache`, which must outlive it, and put
// those into it that it decodes.
void image_stage_use_cache(struct stage *stage, struct sample_cache *cache);

#endif
