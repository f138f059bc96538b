// The stages of a dataset's fields in one loader.
#ifndef FEEDD_DAEMON_LOADER_STAGE_STAGE_SET_H
#define FEEDD_DAEMON_LOADER_STAGE_STAGE_SET_H

#include "base/error.h"
#include "daemon/dataset/dataset.h"
#include "daemon/loader/stage/stage.h"

struct stage_set {
    struct stage *of_field[RING_MAX_FIELDS]; // NULL: delivered as it is stored
    struct sample_cache *cache;              // of the samples of some of them; NULL: none
};

// Opens the stages that the layout asks for. `gpu_images`: images that a GPU can make are made there (gpu_images.h).
// `layout` must outlive them. -EINVAL when one of them does not deliver what
// the ring's fields have room for; then nothing is left open.
int stage_set_open(struct stage_set *set, const struct dataset_layout *layout,
                   const struct ring_field *fields, bool gpu_images, struct error *error);
// Opens the cache of the layout's dataset, if it has one and these descriptors are its: both are /dev/null otherwise,
// the second one also if there is no file. Closes neither. Without it, images are decoded each time.
void stage_set_open_cache(struct stage_set *set, const struct dataset_layout *layout, int memory_fd,
                          int file_fd);

void stage_set_close(struct stage_set *set);

#endif
