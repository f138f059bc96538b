// Memory that grows to what an image needs and stays for the next one.
#ifndef FEEDD_DAEMON_IMAGE_SCRATCH_H
#define FEEDD_DAEMON_IMAGE_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_scratch {
    uint8_t *bytes;
    size_t room;
};

// At least `size` bytes; what was in them is lost. NULL: no memory.
uint8_t *image_scratch_take(struct image_scratch *scratch, size_t size);

// Gives back what only a rare, large image needed.
#define IMAGE_SCRATCH_KEPT ((size_t)64 << 20)
void image_scratch_trim(struct image_scratch *scratch);

void image_scratch_free(struct image_scratch *scratch);

#endif
