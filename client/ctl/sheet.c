#include "client/ctl/sheet.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

uint32_t sheet_columns(uint64_t count) {
    const double side = sqrt((double)count);
    const uint64_t least = count ? (uint64_t)ceil(side) : 1;
    for (uint64_t columns = least; columns <= (uint64_t)(2 * side); columns++)
        if (count % columns == 0)
            return (uint32_t)columns;
    return (uint32_t)least;
}

// Pixels that `count` images of `size` and the gaps between them need; more than a PNG can have if that overflows.
static uint64_t extent(uint64_t count, uint64_t size) {
    return count > UINT32_MAX || size > UINT32_MAX ? UINT64_MAX : count * (size + SHEET_GAP) - SHEET_GAP;
}

static int make(struct sheet *sheet, const struct image *first, struct error *error) {
    const uint32_t columns = sheet_columns(sheet->count);
    const uint64_t rows = (sheet->count + columns - 1) / columns;
    const uint64_t width = extent(columns, first->width), height = extent(rows, first->height);
    if (width > INT32_MAX || height > INT32_MAX)
        return error_set(error, -EFBIG,
                         "%" PRIu64
                         " images of %u x %u pixels are too many for one sheet: choose fewer samples",
                         sheet->count, first->width, first->height);
    sheet->image =
        (struct image){.width = (uint32_t)width, .height = (uint32_t)height, .channels = first->channels};
    sheet->image.pixels = calloc(height, width * first->channels);
    if (!sheet->image.pixels)
        return error_set(error, -ENOMEM, "no memory for a sheet of %" PRIu64 " x %" PRIu64 " pixels", width,
                         height);
    sheet->width = first->width;
    sheet->height = first->height;
    sheet->columns = columns;
    sheet->rows = (uint32_t)rows;
    return 0;
}

int sheet_put(struct sheet *sheet, uint64_t place, const struct image *image, struct error *error) {
    if (!sheet->image.pixels) {
        int err = make(sheet, image, error);
        if (err)
            return err;
    }
    const struct image *whole = &sheet->image;
    if (image->width != sheet->width || image->height != sheet->height || image->channels != whole->channels)
        return error_set(
            error, -EINVAL,
            "found an image of %u x %u pixels with %u channels after one of %u x %u with %u: the dataset has "
            "changed, try again",
            image->width, image->height, image->channels, sheet->width, sheet->height, whole->channels);
    const uint64_t left = place % sheet->columns * (sheet->width + SHEET_GAP);
    const uint64_t top = place / sheet->columns * (sheet->height + SHEET_GAP);
    const size_t row = (size_t)image->width * image->channels;
    for (uint32_t y = 0; y < image->height; y++)
        memcpy(whole->pixels + ((top + y) * whole->width + left) * whole->channels, image->pixels + y * row,
               row);
    return 0;
}

void sheet_free(struct sheet *sheet) {
    image_free(&sheet->image);
}
