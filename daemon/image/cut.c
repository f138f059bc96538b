#include "daemon/image/cut.h"

int image_check_size(uint64_t width, uint64_t height, struct error *error) {
    if (!width || !height)
        return error_set(error, -EBADMSG, "its image has no pixels");
    if (width <= IMAGE_MAX_SIDE && height <= IMAGE_MAX_SIDE && width * height <= IMAGE_MAX_PIXELS)
        return 0;
    return error_set(error, -EFBIG,
                     "its image has %llu x %llu pixels; at most %u per side and %u in all are allowed",
                     (unsigned long long)width, (unsigned long long)height, IMAGE_MAX_SIDE, IMAGE_MAX_PIXELS);
}

int image_check_same(const struct image_cut *cut, uint32_t width, uint32_t height, struct error *error) {
    if (width == cut->width && height == cut->height)
        return 0;
    return error_set(error, -EBADMSG,
                     "its image has %u x %u pixels, wanted %u x %u as its header said before", width, height,
                     cut->width, cut->height);
}

int image_make_rows(struct image *pixels, struct image_scratch *scratch, uint32_t width, uint32_t height,
                    uint32_t channels, uint32_t bytes_per_pixel, struct error *error) {
    size_t stride = (size_t)width * bytes_per_pixel;
    *pixels = (struct image){.width = width, .height = height, .channels = channels, .stride = stride};
    pixels->pixels = image_scratch_take(scratch, stride * height);
    if (pixels->pixels)
        return 0;
    return error_set(error, -ENOMEM, "its image needs %zu bytes when decoded, for which there is no memory",
                     stride * height);
}

// Weights of ITU-R BT.601 in 1/65536, rounded as Pillow's convert("L") does it.
void image_row_rgb_to_grey(uint8_t *row, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint8_t *rgb = row + 3 * i;
        row[i] = (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
    }
}

// a * b / 255, rounded.
static uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = a * b + 128;
    return ((product >> 8) + product) >> 8;
}

// Inverted, a component is what is left of the light: with c = 255 - C and k = 255 - K, red is k - C * k / 255.
void image_row_cmyk_to_rgb(uint8_t *row, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint8_t *cmyk = row + 4 * i;
        const uint32_t light = cmyk[3];
        uint8_t rgb[3];
        for (unsigned channel = 0; channel < 3; channel++)
            rgb[channel] = (uint8_t)(light - multiply(255u - cmyk[channel], light));
        for (unsigned channel = 0; channel < 3; channel++)
            row[3 * i + channel] = rgb[channel];
    }
}

void image_row_clip_16(uint8_t *row, size_t count) {
    for (size_t i = 0; i < count; i++)
        row[i] = row[2 * i] ? UINT8_MAX : row[2 * i + 1];
}
