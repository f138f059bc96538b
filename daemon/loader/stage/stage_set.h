// The stages of a dataset's fields in one loader.
#ifndef FEEDD_DAEMON_LOADER_STAGE_STAGE_SET_H
#define FEEDD_DAEMON_LOADER_STAGE_STAGE_SET_H

#include "base/error.h"
#include "daemon/dataset/dataset.h"
#include "daemon/loader/stage/stage.h"

struct stage_set {
    struct stage *of_field[RING_MAX_FIELDS]; // NULL: delivered as it is stored
};

// Opens the stages that the layout asks for. `gpu_images`: images that a GPU can make are made there (gpu_images.h).
// `layout` must outlive them. -EINVAL when one of them does not deliver what
// the ring's fields have room for; then nothing is left open.
int stage_set_open(struct stage_set *set, const struct dataset_layout *layout,
                   const struct ring_field *fields, bool gpu_images, struct error *error);
void stage_set_close(struct stage_set *set);

#endif
