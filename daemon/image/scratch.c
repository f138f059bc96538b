#include "daemon/image/scratch.h"

#include <stdlib.h>

uint8_t *image_scratch_take(struct image_scratch *scratch, size_t size) {
    if (scratch->bytes && scratch->room >= size)
        return scratch->bytes;
    image_scratch_free(scratch);
    size += size / 4; // so that images that grow little by little do not allocate each time
    scratch->bytes = malloc(size ? size : 1);
    scratch->room = scratch->bytes ? size : 0;
    return scratch->bytes;
}

void image_scratch_trim(struct image_scratch *scratch) {
    if (scratch->room > IMAGE_SCRATCH_KEPT)
        image_scratch_free(scratch);
}

void image_scratch_free(struct image_scratch *scratch) {
    free(scratch->bytes);
    *scratch = (struct image_scratch){0};
}
