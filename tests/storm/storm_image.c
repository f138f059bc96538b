#include "tests/storm/storm_image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/storm/storm_draw.h"

#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW  0x1.a39ef35793c76p-33
#define TRIES    10
#define FIXED    22 // bits after the point of a weight

// ---- Random numbers ----------------------------------------------------------------------------------------

struct dice {
    uint64_t seed, epoch, position, step, taken;
};

static uint64_t roll(struct dice *dice) {
    const uint64_t image = 3, block = dice->taken / 2;
    const uint64_t key =
        storm_splitmix(storm_splitmix(storm_splitmix(image) ^ dice->seed) ^ (dice->step << 32 | block));
    const struct storm_words words = storm_philox_words(key, dice->position, dice->epoch);
    return dice->taken++ % 2 ? words.high : words.low;
}

static double uniform(struct dice *dice) {
    return (double)(roll(dice) >> 11) / 0x1p53;
}

static uint64_t below(struct dice *dice, uint64_t count) {
    for (;;) {
        const unsigned __int128 product = (unsigned __int128)roll(dice) * count;
        if ((uint64_t)product >= -count % count)
            return (uint64_t)(product >> 64);
    }
}

// ---- The crop ----------------------------------------------------------------------------------------------

static double exact_exp(double x) {
    const double k = rint(x / 0x1.62e42fefa39efp-1), r = (x - k * LN2_HIGH) - k * LN2_LOW;
    double sum = 0, factorial = 6227020800; // of 13
    for (int n = 13; n >= 0; factorial /= n ? n : 1, n--)
        sum = sum * r + 1 / factorial;
    return ldexp(sum, (int)k);
}

static double exact_log(double x) {
    int k;
    double m = frexp(x, &k);
    if (m < sqrt(0.5)) {
        m *= 2;
        k--;
    }
    const double s = (m - 1) / (m + 1), z = s * s;
    double sum = 0;
    for (int n = 21; n > 1; n -= 2)
        sum = sum * z + 1.0 / n;
    return k * LN2_HIGH + (2 * s + (k * LN2_LOW + 2 * s * z * sum));
}

struct crop {
    uint32_t x, y, width, height;
};

static struct crop middle(const struct storm_image *image, double least, double most) {
    const double ratio = (double)image->width / image->height;
    struct crop crop = {.width = image->width, .height = image->height};
    if (ratio < least)
        crop.height = (uint32_t)fmax(1, rint(crop.width / least));
    else if (ratio > most)
        crop.width = (uint32_t)fmax(1, rint(crop.height * most));
    crop.x = (image->width - crop.width) / 2;
    crop.y = (image->height - crop.height) / 2;
    return crop;
}

static struct crop choose_crop(const struct storm_image *image, struct dice dice) {
    const double area = (double)0.08f, least = (double)(float)(3.0 / 4), most = (double)(float)(4.0 / 3);
    const double low = exact_log(least), high = exact_log(most);
    for (int i = 0; i < TRIES; i++) {
        const double a = (double)image->width * image->height * (area + (1 - area) * uniform(&dice));
        const double r = exact_exp(low + (high - low) * uniform(&dice));
        const double width = rint(sqrt(a * r)), height = rint(sqrt(a / r));
        if (width < 1 || height < 1 || width > image->width || height > image->height)
            continue;
        struct crop crop = {.width = (uint32_t)width, .height = (uint32_t)height};
        crop.y = (uint32_t)below(&dice, image->height - crop.height + 1);
        crop.x = (uint32_t)below(&dice, image->width - crop.width + 1);
        return crop;
    }
    return middle(image, least, most);
}

// ---- Resizing, as Pillow does (daemon/image/resize.h) ------------------------------------------------------

static uint8_t weighted(const uint8_t *from, uint32_t stride, uint32_t size, uint32_t side, uint32_t at) {
    const double scale = (double)size / side, wide = fmax(scale, 1), center = (at + 0.5) * scale;
    const int first = (int)fmax(center - wide + 0.5, 0), end = (int)fmin(center + wide + 0.5, size);
    double sum = 0;
    int32_t level = 1 << (FIXED - 1);
    for (int i = first; i < end; i++)
        sum += fmax(1 - fabs((i - center + 0.5) * (1 / wide)), 0);
    for (int i = first; i < end; i++) {
        const double weight = fmax(1 - fabs((i - center + 0.5) * (1 / wide)), 0) / sum;
        level += from[(size_t)i * stride] * (int32_t)(0.5 + weight * (1 << FIXED));
    }
    level >>= FIXED;
    return (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
}

static void across(const uint8_t *from, size_t stride, uint32_t rows, uint32_t channels, uint32_t width,
                   uint32_t side, uint8_t *to) {
    for (uint32_t y = 0; y < rows; y++)
        for (uint32_t i = 0; i < side * channels; i++)
            *to++ = weighted(from + y * stride + i % channels, channels, width, side, i / channels);
}

static void down(const uint8_t *from, size_t stride, uint32_t bytes, uint32_t height, uint32_t side,
                 uint8_t *to) {
    for (uint32_t y = 0; y < side; y++)
        for (uint32_t i = 0; i < bytes; i++)
            *to++ = weighted(from + i, (uint32_t)stride, height, side, y);
}

// Rows first, or, as Pillow 13 does, columns first if the height is reduced by more than twice as many pixels.
static bool bilinear(const struct storm_image *image, struct crop crop, uint32_t side, uint8_t *made) {
    const uint32_t channels = image->channels;
    const int64_t less_wide = (int64_t)crop.width - side, less_high = (int64_t)crop.height - side;
    const size_t stride = (size_t)image->width * channels;
    const uint8_t *from = image->pixels + crop.y * stride + (size_t)crop.x * channels;
    uint8_t *between = malloc((size_t)side * channels * (crop.width + crop.height));
    if (!between)
        return false;
    if (less_high > 0 && less_high > 2 * less_wide) {
        down(from, stride, crop.width * channels, crop.height, side, between);
        across(between, (size_t)crop.width * channels, side, channels, crop.width, side, made);
    } else {
        across(from, stride, crop.height, channels, crop.width, side, between);
        down(between, (size_t)side * channels, side * channels, crop.height, side, made);
    }
    free(between);
    return true;
}

// The middles of results are added up, not multiplied.
static void nearest_places(uint32_t first, uint32_t size, uint32_t side, uint32_t *places) {
    const double step = (double)size / side;
    double middle = step / 2;
    for (uint32_t i = 0; i < side; i++) {
        places[i] = first + (uint32_t)middle;
        middle += step;
    }
}

static void nearest(const struct storm_image *image, struct crop crop, uint32_t side, uint8_t *made) {
    uint32_t columns[STORM_SIDE_MOST], rows[STORM_SIDE_MOST];
    nearest_places(crop.x, crop.width, side, columns);
    nearest_places(crop.y, crop.height, side, rows);
    for (uint32_t y = 0; y < side; y++)
        for (uint32_t x = 0; x < side; x++) {
            const size_t at = (size_t)rows[y] * image->width + columns[x];
            memcpy(made, image->pixels + at * image->channels, image->channels);
            made += image->channels;
        }
}

static void mirror(uint8_t *made, uint32_t side, uint32_t channels) {
    for (uint32_t row = 0; row < side; row++)
        for (uint32_t column = 0; column < side / 2; column++)
            for (uint32_t channel = 0; channel < channels; channel++) {
                uint8_t *one = made + ((size_t)row * side + column) * channels + channel;
                uint8_t *other = made + ((size_t)row * side + side - 1 - column) * channels + channel;
                const uint8_t level = *one;
                *one = *other;
                *other = level;
            }
}

// ---- Both --------------------------------------------------------------------------------------------------

bool storm_image_read(const uint8_t *truth, uint64_t bytes, struct storm_image *image) {
    uint32_t words[3];
    if (bytes < sizeof words)
        return false;
    memcpy(words, truth, sizeof words);
    *image = (struct storm_image){truth + sizeof words, words[0], words[1], words[2] % 256, words[2] >= 256};
    return bytes == sizeof words + (uint64_t)image->width * image->height * image->channels;
}

bool storm_image_make(const struct storm_image *image, uint64_t seed, uint64_t epoch, uint64_t position,
                      uint32_t side, bool mask, uint8_t *made) {
    struct dice dice = {.seed = seed, .epoch = epoch, .position = position};
    const struct crop crop = choose_crop(image, dice);
    dice.step = 1;
    if (mask)
        nearest(image, crop, side, made);
    else if (!bilinear(image, crop, side, made))
        return false;
    if (uniform(&dice) < 0.5)
        mirror(made, side, image->channels);
    return true;
}
