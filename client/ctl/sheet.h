// Images of one size side by side in one image: a contact sheet. Pure.
#ifndef FEEDD_CLIENT_CTL_SHEET_H
#define FEEDD_CLIENT_CTL_SHEET_H

#include "client/ctl/image.h"

#define SHEET_GAP                                                                                            \
    2 // pixels between two images, black or transparent like the place of an image that is missing

struct sheet {
    uint64_t count;         // images that it has places for
    uint32_t width, height; // of each image, once there is one
    uint32_t columns, rows; // of images
    struct image image;     // without pixels before the first image
};

// Puts the image to a place, counted from 0 along the rows. Takes no image of another size than the first one: -EINVAL.
// -EFBIG if the sheet would be larger than a PNG can be; -ENOMEM
int sheet_put(struct sheet *sheet, uint64_t place, const struct image *image, struct error *error);

// How many columns `count` images have: about as many as rows, and such that all rows are full if that is possible with
// at most twice as many.
uint32_t sheet_columns(uint64_t count);

void sheet_free(struct sheet *sheet);

#endif
