// The arithmetic by which images are finished (gpu/finish.h), for the kernel and for the simulated GPU alike: pixels of
// libjpeg-turbo's accurate decoder from its planes, and the weights of Pillow's resize. Every operation is rounded on
// its own (no fused multiply-add), so the results are those of daemon/image/ bit for bit.
#ifndef FEEDD_GPU_FINISH_MATH_H
#define FEEDD_GPU_FINISH_MATH_H

#include "shm/image_record.h"

#define FINISH_PRECISION 22 // fractional bits of a weight
#define FINISH_THREADS                                                                                       \
    256u // per block of the kernel, which makes IMAGE_RECORD_TILE x IMAGE_RECORD_TILE pixels

struct finish_pixel {
    uint8_t value[4];
};

IMAGE_RECORD_FN uint8_t finish_clamp(int32_t value) {
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

IMAGE_RECORD_FN uint8_t finish_round(int32_t sum) {
    return finish_clamp(sum >> FINISH_PRECISION);
}

// ---- Pixels ------------------------------------------------------------------------------------------------

// The planes of an image, found once. Offsets within a plane have 32 bits, since its sides have 16.
struct finish_planes {
    const uint8_t *luminance, *blue, *red;
    uint32_t width;                       // of the luminance
    uint32_t colour_width, colour_height; // of the others
    uint32_t across, down;                // shifts from places in the luminance to places in the others
    bool has_colours;
    bool grey; // one channel is delivered
};

IMAGE_RECORD_FN struct finish_planes finish_planes_of(const struct image_record *record,
                                                      const uint8_t *pixels, bool grey) {
    struct image_plane blue = image_record_plane(record, 1), red = image_record_plane(record, 2);
    struct finish_planes planes;
    planes.luminance = pixels;
    planes.blue = pixels + blue.offset;
    planes.red = pixels + red.offset;
    planes.width = record->width;
    planes.colour_width = blue.width;
    planes.colour_height = blue.height;
    planes.across = record->sampling >= IMAGE_SAMPLING_422;
    planes.down = record->sampling == IMAGE_SAMPLING_420;
    planes.has_colours = record->sampling != IMAGE_SAMPLING_GREY;
    planes.grey = grey;
    return planes;
}

// The second nearest colour to a pixel, along an axis with half as many colours as pixels. Otherwise, and at the edges,
// the nearest.
IMAGE_RECORD_FN uint32_t finish_next(uint32_t place, uint32_t shift, uint32_t size) {
    uint32_t nearest = place >> shift, next = nearest - 1 + (place & 1) * 2; // wraps around at 0
    return shift && next < size ? next : nearest;
}

// Offsets in a plane of colours: of the nearest one, of those beside it in its row and its column, and of the fourth.
struct finish_corners {
    uint32_t nearest, in_row, in_column, diagonal;
};

// "Fancy upsampling": a triangle filter that weighs 3 to 1 along each axis, with alternating rounding. Along an axis
// with as many colours as pixels, it takes all four parts from the same colour.
IMAGE_RECORD_FN int32_t finish_colour(const uint8_t *plane, const struct finish_corners *at, int32_t half) {
    int32_t nearest = 3 * plane[at->nearest] + plane[at->in_column];
    int32_t beside = 3 * plane[at->in_row] + plane[at->diagonal];
    return (3 * nearest + beside + half) >> 4;
}

// The pixel of the decoded part at that place, which is within it.
IMAGE_RECORD_FN struct finish_pixel finish_pixel_at(const struct finish_planes *planes, uint32_t x,
                                                    uint32_t y) {
    int32_t luminance = planes->luminance[y * planes->width + x];
    struct finish_pixel pixel;
    pixel.value[0] = pixel.value[1] = pixel.value[2] = (uint8_t)luminance;
    pixel.value[3] = 0;
    if (!planes->has_colours)
        return pixel;
    const uint32_t column = x >> planes->across,
                   beside = finish_next(x, planes->across, planes->colour_width);
    const uint32_t row = (y >> planes->down) * planes->colour_width;
    const uint32_t other = finish_next(y, planes->down, planes->colour_height) * planes->colour_width;
    const struct finish_corners at = {row + column, row + beside, other + column, other + beside};
    const int32_t half = planes->down ? 8 - (int32_t)(x & 1) : 4 + (int32_t)(x & 1) * 4;
    int32_t cb = finish_colour(planes->blue, &at, half) - 128;
    int32_t cr = finish_colour(planes->red, &at, half) - 128;
    // 1.402, 0.34414, 0.71414 and 1.772 with 16 fractional bits.
    int32_t r = finish_clamp(luminance + ((91881 * cr + 32768) >> 16));
    int32_t g = finish_clamp(luminance + ((-22554 * cb - 46802 * cr + 32768) >> 16));
    int32_t b = finish_clamp(luminance + ((116130 * cb + 32768) >> 16));
    if (planes->grey)
        r = g = b = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
    pixel.value[0] = (uint8_t)r;
    pixel.value[1] = (uint8_t)g;
    pixel.value[2] = (uint8_t)b;
    return pixel;
}

// The size of the decoded part after EXIF's orientation, and its pixel at a place there, which is within it.
IMAGE_RECORD_FN uint32_t finish_turned_width(const struct image_record *record) {
    return record->flags & IMAGE_RECORD_SWAPPED ? record->height : record->width;
}

IMAGE_RECORD_FN uint32_t finish_turned_height(const struct image_record *record) {
    return record->flags & IMAGE_RECORD_SWAPPED ? record->width : record->height;
}

IMAGE_RECORD_FN struct finish_pixel finish_turned_pixel_at(const struct image_record *record,
                                                           const struct finish_planes *planes, uint32_t x,
                                                           uint32_t y) {
    uint32_t column = record->flags & IMAGE_RECORD_SWAPPED ? y : x;
    uint32_t row = record->flags & IMAGE_RECORD_SWAPPED ? x : y;
    if (record->flags & IMAGE_RECORD_FROM_RIGHT)
        column = record->width - 1 - column;
    if (record->flags & IMAGE_RECORD_FROM_BOTTOM)
        row = record->height - 1 - row;
    return finish_pixel_at(planes, column, row);
}

// ---- Weights: see daemon/image/resize.h ----------------------------------------------------------------------

struct finish_window {
    double scale, inverse, support;
    uint32_t source;
    bool bicubic;
};

IMAGE_RECORD_FN struct finish_window finish_window_of(uint32_t source, uint32_t results, bool bicubic) {
    struct finish_window window;
    window.source = source;
    window.bicubic = bicubic;
    window.scale = (double)source / results;
    double widened = window.scale < 1.0 ? 1.0 : window.scale;
    window.inverse = 1.0 / widened;
    window.support = (bicubic ? 2.0 : 1.0) * widened;
    return window;
}

IMAGE_RECORD_FN void finish_span(const struct finish_window *window, uint32_t result, uint32_t *begin,
                                 uint32_t *end) {
    double center = (result + 0.5) * window->scale;
    double low = center - window->support + 0.5, high = center + window->support + 0.5;
    *begin = low > 0 ? (uint32_t)low : 0;
    *end = high < window->source ? (uint32_t)high : window->source;
}

IMAGE_RECORD_FN double finish_filter(bool bicubic, double x) {
    x = x < 0 ? -x : x;
    if (!bicubic)
        return x < 1.0 ? 1.0 - x : 0.0;
    if (x < 1.0)
        return ((-0.5 + 2.0) * x - (-0.5 + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5 : 0.0;
}

// The weights of a result: `count` of them, at most IMAGE_RECORD_TAPS, for the pixels from `begin` on.
struct finish_weights {
    double center, sum;
    uint32_t begin, count;
};

IMAGE_RECORD_FN double finish_weight_of(const struct finish_window *window,
                                        const struct finish_weights *weights, uint32_t i) {
    return finish_filter(window->bicubic,
                         ((double)i + weights->begin - weights->center + 0.5) * window->inverse);
}

IMAGE_RECORD_FN struct finish_weights finish_weights_of(const struct finish_window *window, uint32_t result) {
    struct finish_weights weights;
    uint32_t end;
    weights.center = (result + 0.5) * window->scale;
    weights.sum = 0;
    finish_span(window, result, &weights.begin, &end);
    weights.count = end > weights.begin ? end - weights.begin : 0;
    if (weights.count > IMAGE_RECORD_TAPS)
        weights.count = IMAGE_RECORD_TAPS;
    for (uint32_t i = 0; i < weights.count; i++)
        weights.sum += finish_weight_of(window, &weights, i);
    return weights;
}

// Weight number `i`, with FINISH_PRECISION fractional bits.
IMAGE_RECORD_FN int32_t finish_weigh(const struct finish_window *window, const struct finish_weights *weights,
                                     uint32_t i) {
    double weight = finish_weight_of(window, weights, i);
    double scaled = (weights->sum != 0 ? weight / weights->sum : weight) * (1 << FINISH_PRECISION);
    return (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

#endif
