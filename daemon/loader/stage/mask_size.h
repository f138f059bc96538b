// Whether a mask has the size of the image whose steps it takes: otherwise it would be cut elsewhere than the image.
#ifndef FEEDD_DAEMON_LOADER_STAGE_MASK_SIZE_H
#define FEEDD_DAEMON_LOADER_STAGE_MASK_SIZE_H

#include "base/error.h"
#include "daemon/dataset/dataset.h"
#include "daemon/loader/stage/stage.h"

// The field that the steps of `field` follow, or NO_FIELD.
#define NO_FIELD UINT32_MAX
uint32_t mask_size_followed(const struct dataset_layout *layout, uint32_t field);

// Compares the sizes with which the steps of the two fields begin: after any orientation, and with a cache those that
// it keeps, so that the answer does not depend on what it has. -EBADMSG and a sentence if they differ. What cannot be
// read is left to the stage that decodes it.
int mask_size_check(const struct dataset_layout *layout, uint32_t mask,
                    const struct stage_sample *mask_stored, uint32_t image,
                    const struct stage_sample *image_stored, struct error *error);

#endif
