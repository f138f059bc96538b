#include "client/ctl/image_png.h"

#include <png.h>

int image_write_png(const struct image *image, const char *path, struct error *error) {
    static const png_uint_32 formats[] = {[1] = PNG_FORMAT_GRAY, [3] = PNG_FORMAT_RGB, [4] = PNG_FORMAT_RGBA};
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = image->width,
                     .height = image->height,
                     .format = formats[image->channels]};
    if (!png_image_write_to_file(&png, path, 0, image->pixels, 0, NULL))
        return error_set(error, -EIO, "cannot write %s: %s", path, png.message);
    return 0;
}
