// Images as PNG files.
#ifndef FEEDD_CLIENT_CTL_IMAGE_PNG_H
#define FEEDD_CLIENT_CTL_IMAGE_PNG_H

#include "client/ctl/image.h"

// Writes the pixels as they are: grey, RGB or RGBA of 8 bits. Nothing is left of a file that cannot be written whole.
int image_write_png(const struct image *image, const char *path, struct error *error);

#endif
