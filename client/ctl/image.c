#include "client/ctl/image.h"

#include <math.h>
#include <string.h>

#include "base/sizes.h"

// Where the elements of an image are: distances in elements.
struct layout {
    uint64_t width, height, channels;
    uint64_t along, down, across; // to the next pixel of a row, row, channel
};

static bool is_channels(uint64_t size) {
    return size == 1 || size == 3 || size == 4;
}

// Of a field with such a shape, by its axes after that of the batch.
static bool find_layout(const struct feed_array *field, struct layout *layout) {
    uint32_t dimensions = field->dimensions - 1;
    const uint64_t *shape = field->shape + 1;
    if (dimensions == 2)
        *layout = (struct layout){.height = shape[0], .width = shape[1], .channels = 1, .along = 1};
    else if (dimensions == 3 && is_channels(shape[2]) && shape[0] >= IMAGE_LEAST)
        *layout = (struct layout){
            .height = shape[0], .width = shape[1], .channels = shape[2], .along = shape[2], .across = 1};
    else if (dimensions == 3 && is_channels(shape[0]))
        *layout = (struct layout){.height = shape[1],
                                  .width = shape[2],
                                  .channels = shape[0],
                                  .along = 1,
                                  .across = shape[1] * shape[2]};
    else
        return false;
    layout->down = layout->width * layout->along;
    return layout->height >= IMAGE_LEAST && layout->width >= IMAGE_LEAST && layout->height <= INT32_MAX &&
           layout->width <= INT32_MAX;
}

static bool is_floating(enum feed_dtype dtype) {
    return dtype == FEED_F16 || dtype == FEED_BF16 || dtype == FEED_F32 || dtype == FEED_F64;
}

bool image_size(const struct feed_array *field, struct image *size) {
    struct layout layout;
    bool dtype = field->dtype == FEED_U8 || field->dtype == FEED_BOOL || is_floating(field->dtype);
    if (!dtype || !find_layout(field, &layout))
        return false;
    *size = (struct image){.width = (uint32_t)layout.width,
                           .height = (uint32_t)layout.height,
                           .channels = (uint32_t)layout.channels};
    return true;
}

bool image_is(const struct feed_array *field) {
    struct image size;
    return image_size(field, &size);
}

// ---- Pixels ----------------------------------------------------------------------------------------

// Halves, so that the range of f64 does not overflow.
struct scale {
    double least, range;
};

// Clamped as well: the daemon's memory could have changed since the range was found.
static uint8_t scaled(double value, const struct scale *scale) {
    double share = scale->range > 0 ? (value / 2 - scale->least) / scale->range : 0;
    return share >= 1 ? 255 : share > 0 ? (uint8_t)lround(share * 255) : 0; // NaN is not > 0
}

static uint8_t pixel(const struct feed_array *field, uint64_t at, const struct scale *scale) {
    if (field->dtype == FEED_U8)
        return ((const uint8_t *)field->data)[at];
    struct element element = element_at(field->dtype, field->data, at);
    return element.kind == ELEMENT_BOOL ? (element.whole ? 255 : 0) : scaled(element.real, scale);
}

static int allocate(struct image *image, uint64_t width, uint64_t height, uint64_t channels) {
    *image =
        (struct image){.width = (uint32_t)width, .height = (uint32_t)height, .channels = (uint32_t)channels};
    image->pixels = calloc(height, width * channels);
    return image->pixels ? 0 : -ENOMEM;
}

int image_make(struct image *image, const struct feed_array *field, const struct summary *summary) {
    struct layout layout;
    struct scale scale = {0};
    if (!find_layout(field, &layout))
        return -EINVAL;
    if (allocate(image, layout.width, layout.height, layout.channels) < 0)
        return -ENOMEM;
    if (is_floating(field->dtype) && summary_finite(summary))
        scale = (struct scale){.least = summary->least.real / 2,
                               .range = summary->most.real / 2 - summary->least.real / 2};
    uint8_t *next = image->pixels;
    for (uint64_t y = 0; y < layout.height; y++)
        for (uint64_t x = 0; x < layout.width; x++)
            for (uint64_t channel = 0; channel < layout.channels; channel++)
                *next++ = pixel(field, y * layout.down + x * layout.along + channel * layout.across, &scale);
    return 0;
}

void image_free(struct image *image) {
    free(image->pixels);
    image->pixels = NULL;
}

// ---- Smaller ---------------------------------------------------------------------------------------

// Pixels of the large image, with fractions, that one of the small image covers.
struct box {
    double left, top, right, bottom;
};

// How much of pixel `at` lies between the two bounds.
static double share_between(double from, double to, uint32_t at) {
    return fmin(to, at + 1.0) - fmax(from, at);
}

static void average(const struct image *image, const struct box *box, uint8_t *to) {
    double sums[4] = {0}, area = 0, weights = 0;
    uint32_t channels = image->channels, last_x = (uint32_t)fmin(ceil(box->right), image->width);
    uint32_t last_y = (uint32_t)fmin(ceil(box->bottom), image->height);
    for (uint32_t y = (uint32_t)box->top; y < last_y; y++) {
        double high = share_between(box->top, box->bottom, y);
        for (uint32_t x = (uint32_t)box->left; x < last_x; x++) {
            const uint8_t *from = image->pixels + ((uint64_t)y * image->width + x) * channels;
            double covered = high * share_between(box->left, box->right, x);
            double weight = channels == 4 ? covered * from[3] : covered;
            for (uint32_t k = 0; k < channels && k < 3; k++)
                sums[k] += weight * from[k];
            weights += weight;
            area += covered;
        }
    }
    for (uint32_t k = 0; k < channels && k < 3; k++)
        to[k] = weights > 0 ? (uint8_t)lround(sums[k] / weights) : 0;
    if (channels == 4)
        to[3] = area > 0 ? (uint8_t)lround(weights / area) : 0;
}

int image_shrink(const struct image *image, uint32_t width, uint32_t height, struct image *small) {
    double factor = fmax((double)image->width / width, (double)image->height / height);
    if (factor < 1)
        factor = 1;
    uint64_t new_width = max_u64(1, (uint64_t)lround(image->width / factor));
    uint64_t new_height = max_u64(1, (uint64_t)lround(image->height / factor));
    if (allocate(small, new_width, new_height, image->channels) < 0)
        return -ENOMEM;
    double wide = (double)image->width / (double)new_width, high = (double)image->height / (double)new_height;
    uint8_t *next = small->pixels;
    for (uint64_t y = 0; y < new_height; y++)
        for (uint64_t x = 0; x < new_width; x++, next += image->channels)
            average(image,
                    &(struct box){(double)x * wide, (double)y * high, (double)(x + 1) * wide,
                                  (double)(y + 1) * high},
                    next);
    return 0;
}
