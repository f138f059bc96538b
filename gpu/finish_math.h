// The arithmetic by which images are finished (gpu/finish.h), for the kernel and for the simulated GPU alike: pixels of
// libjpeg-turbo's accurate decoder from its planes, and the weights of Pillow's resize. Every operation is rounded on
// its own (no fused multiply-add), so the results are those of daemon/image/ bit for bit.
#ifndef FEEDD_GPU_FINISH_MATH_H
#define FEEDD_GPU_FINISH_MATH_H

#include "shm/image_record.h"

#define FINISH_PRECISION 22 // bits of a weight behind the point

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
    uint32_t sampling;
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
    planes.sampling = record->sampling;
    planes.grey = grey;
    return planes;
}

// "Fancy upsampling": a triangle filter, with a rounding that alternates. `near` and `far` are the columns of which
// three parts and one part are taken, `row` and `other` begin the rows.
IMAGE_RECORD_FN int32_t finish_colour(const uint8_t *plane, uint32_t row, uint32_t other, uint32_t near,
                                      uint32_t far, uint32_t sampling, bool odd) {
    if (sampling == IMAGE_SAMPLING_444)
        return plane[row + near];
    if (sampling == IMAGE_SAMPLING_422)
        return near == far ? plane[row + near]
                           : (3 * plane[row + near] + plane[row + far] + (odd ? 2 : 1)) >> 2;
    int32_t sum = 3 * plane[row + near] + plane[other + near];
    sum = 3 * sum + (near == far ? sum : 3 * plane[row + far] + plane[other + far]);
    return (sum + (odd ? 7 : 8)) >> 4;
}

// The pixel of the decoded part at that place, which is within it.
IMAGE_RECORD_FN struct finish_pixel finish_pixel_at(const struct finish_planes *planes, uint32_t x,
                                                    uint32_t y) {
    int32_t luminance = planes->luminance[y * planes->width + x];
    struct finish_pixel pixel;
    pixel.value[0] = pixel.value[1] = pixel.value[2] = (uint8_t)luminance;
    pixel.value[3] = 0;
    if (planes->sampling == IMAGE_SAMPLING_GREY)
        return pixel;
    uint32_t near = x, far = x, row = y, other = y;
    if (planes->sampling >= IMAGE_SAMPLING_422) {
        near = x / 2;
        far = x % 2 ? near + 1 : near - 1; // wraps around at 0
        far = far < planes->colour_width ? far : near;
    }
    if (planes->sampling == IMAGE_SAMPLING_420) {
        row = y / 2;
        other = y % 2 ? row + 1 : row - 1;
        other = other < planes->colour_height ? other : row;
    }
    row *= planes->colour_width;
    other *= planes->colour_width;
    int32_t cb = finish_colour(planes->blue, row, other, near, far, planes->sampling, x % 2) - 128;
    int32_t cr = finish_colour(planes->red, row, other, near, far, planes->sampling, x % 2) - 128;
    // 1.402, 0.34414, 0.71414 and 1.772 with 16 bits behind the point.
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

// The weights of result number `result`, `count` of them from pixel *begin on; at most IMAGE_RECORD_TAPS.
IMAGE_RECORD_FN uint32_t finish_weigh(const struct finish_window *window, uint32_t result, uint32_t *begin,
                                      int32_t *weights) {
    double center = (result + 0.5) * window->scale, sum = 0;
    uint32_t end;
    finish_span(window, result, begin, &end);
    uint32_t count = end > *begin ? end - *begin : 0;
    if (count > IMAGE_RECORD_TAPS)
        count = IMAGE_RECORD_TAPS;
    for (uint32_t i = 0; i < count; i++)
        sum += finish_filter(window->bicubic, ((double)i + *begin - center + 0.5) * window->inverse);
    for (uint32_t i = 0; i < count; i++) {
        double weight = finish_filter(window->bicubic, ((double)i + *begin - center + 0.5) * window->inverse);
        double scaled = (sum != 0 ? weight / sum : weight) * (1 << FINISH_PRECISION);
        weights[i] = (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    }
    return count;
}

#endif
