// Images that a GPU makes: their JPEGs with a record that says how, or finished pixels of those that it cannot make.
#ifndef FEEDD_DAEMON_LOADER_STAGE_GPU_IMAGE_STAGE_H
#define FEEDD_DAEMON_LOADER_STAGE_GPU_IMAGE_STAGE_H

#include "daemon/dataset/dataset.h"
#include "daemon/loader/stage/stage.h"

// The field in the layout is one of gpu_images_has, and the layout outlives the stage. -EINVAL when what it puts into
// the ring does not have `delivered_bytes`.
int gpu_image_stage_open(const struct dataset_layout *layout, uint32_t field, uint64_t delivered_bytes,
                         struct stage **stage, struct error *error);

#endif
