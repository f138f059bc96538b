#include "daemon/image/affine.h"

#include <string.h>

#include "daemon/image/colour_kernels.h"

#define PART 512u // pixels that are located at a time

// The inverse of a transform: where the pixel of the result is found, about the centre.
struct inverse {
    float a, b, t, c, d, s;
};

static void fill_pixels(uint8_t *to, size_t count, uint32_t channels, const uint8_t fill[3]) {
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * channels, fill, channels);
}

static void gather(uint8_t *to, const uint8_t *from, const int32_t *offsets, uint32_t count,
                   uint32_t channels, const uint8_t fill[3]) {
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *pixel = offsets[i] == AFFINE_OUTSIDE ? fill : from + offsets[i];
        to[0] = pixel[0];
        if (channels == 3) {
            to[1] = pixel[1];
            to[2] = pixel[2];
        }
        to += channels;
    }
}

static void run(const struct image *image, const struct inverse *inverse, const uint8_t fill[3],
                uint8_t *scratch) {
    const size_t row_bytes = (size_t)image->width * image->channels;
    for (uint32_t y = 0; y < image->height; y++)
        memcpy(scratch + y * row_bytes, image->pixels + y * image->stride, row_bytes);
    const float half_width = (float)image->width * 0.5f, half_height = (float)image->height * 0.5f;
    struct affine_row row = {
        .x_by_x = inverse->a / half_width,
        .x_offset = inverse->t / half_width,
        .y_by_x = inverse->c / half_height,
        .y_offset = inverse->s / half_height,
        .first = (1.0f - (float)image->width) * 0.5f,
        .width = (float)image->width,
        .height = (float)image->height,
        .channels = (int32_t)image->channels,
        .stride = (int32_t)row_bytes,
    };
    int32_t offsets[PART];
    for (uint32_t y = 0; y < image->height; y++) {
        const float down = (float)y + (1.0f - (float)image->height) * 0.5f;
        row.x_by_y = down * (inverse->b / half_width);
        row.y_by_y = down * (inverse->d / half_height);
        uint8_t *to = image->pixels + y * image->stride;
        for (uint32_t x = 0, count; x < image->width; x += count) {
            count = image->width - x < PART ? image->width - x : PART;
            colour_kernels(0)->locate(offsets, x, count, &row);
            gather(to + (size_t)x * image->channels, scratch, offsets, count, image->channels, fill);
        }
    }
}

// The corner stays where it is, so the centre moves.
void image_shear_x(struct image *image, double shear, const uint8_t fill[3], uint8_t *scratch) {
    const struct inverse inverse = {
        .a = 1, .b = (float)shear, .t = (float)(shear * 0.5 * image->height), .d = 1};
    run(image, &inverse, fill, scratch);
}

void image_shear_y(struct image *image, double shear, const uint8_t fill[3], uint8_t *scratch) {
    const struct inverse inverse = {
        .a = 1, .c = (float)shear, .s = (float)(shear * 0.5 * image->width), .d = 1};
    run(image, &inverse, fill, scratch);
}

void image_rotate(struct image *image, double degrees, const uint8_t fill[3], uint8_t *scratch) {
    double sine, cosine;
    image_sine_cosine(degrees, &sine, &cosine);
    const struct inverse inverse = {
        .a = (float)cosine, .b = (float)-sine, .c = (float)sine, .d = (float)cosine};
    run(image, &inverse, fill, scratch);
}

void image_translate_x(struct image *image, int64_t pixels, const uint8_t fill[3]) {
    const uint64_t far = pixels < 0 ? 0 - (uint64_t)pixels : (uint64_t)pixels;
    const size_t moved = far < image->width ? (size_t)far : image->width, channels = image->channels;
    const size_t kept = image->width - moved;
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *row = image->pixels + y * image->stride;
        if (pixels > 0) {
            memmove(row + moved * channels, row, kept * channels);
            fill_pixels(row, moved, image->channels, fill);
        } else {
            memmove(row, row + moved * channels, kept * channels);
            fill_pixels(row + kept * channels, moved, image->channels, fill);
        }
    }
}

void image_translate_y(struct image *image, int64_t pixels, const uint8_t fill[3]) {
    const uint64_t far = pixels < 0 ? 0 - (uint64_t)pixels : (uint64_t)pixels;
    const uint32_t moved = far < image->height ? (uint32_t)far : image->height;
    const uint32_t kept = moved > 0 ? image->height - moved : 0;
    const size_t row_bytes = (size_t)image->width * image->channels;
    for (uint32_t i = 0; i < kept; i++) {
        // No row is read after it is written.
        const uint32_t to = pixels > 0 ? image->height - 1 - i : i;
        const uint32_t from = pixels > 0 ? to - moved : to + moved;
        memcpy(image->pixels + to * image->stride, image->pixels + from * image->stride, row_bytes);
    }
    for (uint32_t i = 0; i < moved; i++)
        fill_pixels(image->pixels + (pixels > 0 ? i : kept + i) * image->stride, image->width,
                    image->channels, fill);
}

// Taylor's series up to 45 degrees; what is left out is below 10^-17.
static double sine_of(double x) {
    const double square = x * x;
    double sum = 0;
    for (int32_t n = 19; n > 1; n -= 2)
        sum = square / (double)(n * (n - 1)) * (1.0 - sum);
    return x * (1.0 - sum);
}

static double cosine_of(double x) {
    const double square = x * x;
    double sum = 0;
    for (int32_t n = 20; n > 0; n -= 2)
        sum = square / (double)(n * (n - 1)) * (1.0 - sum);
    return 1.0 - sum;
}

void image_sine_cosine(double degrees, double *sine, double *cosine) {
    const int32_t quarter = (int32_t)(degrees < 0 ? degrees / 90 - 0.5 : degrees / 90 + 0.5);
    const double x = (degrees - 90.0 * quarter) * (3.14159265358979323846 / 180.0);
    const double s = sine_of(x), c = cosine_of(x);
    switch ((uint32_t)quarter & 3u) {
    case 0:
        *sine = s, *cosine = c;
        return;
    case 1:
        *sine = c, *cosine = -s;
        return;
    case 2:
        *sine = -s, *cosine = -c;
        return;
    default:
        *sine = -c, *cosine = s;
    }
}
