#include "daemon/image/colour.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/image/colour_kernels.h"

static uint8_t cut(float value) {
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

// Rows that follow each other without gaps are one: what is done to values alone takes all at once.
static struct image in_rows(const struct image *image, size_t *row_bytes) {
    struct image rows = *image;
    *row_bytes = (size_t)image->width * image->channels;
    if (image->stride == *row_bytes) {
        *row_bytes *= image->height;
        rows.height = *row_bytes > 0 ? 1 : 0;
    }
    return rows;
}

static void map(const struct image *image, const uint8_t table[256]) {
    size_t row_bytes;
    const struct image rows = in_rows(image, &row_bytes);
    for (uint32_t y = 0; y < rows.height; y++)
        colour_kernels(0)->map(rows.pixels + y * rows.stride, row_bytes, table);
}

static void map_channels(const struct image *image, uint8_t tables[3][256]) {
    if (image->channels == 1) {
        map(image, tables[0]);
        return;
    }
    size_t row_bytes;
    const struct image rows = in_rows(image, &row_bytes);
    for (uint32_t y = 0; y < rows.height; y++)
        colour_kernels(0)->map_rgb(rows.pixels + y * rows.stride, row_bytes / 3, tables);
}

void image_brightness(struct image *image, double factor) {
    uint8_t table[256];
    for (uint32_t i = 0; i < 256; i++)
        table[i] = cut((float)i * (float)factor);
    map(image, table);
}

static float mean_level(const struct image *image) {
    size_t row_bytes;
    const struct image rows = in_rows(image, &row_bytes);
    uint64_t sum = 0;
    for (uint32_t y = 0; y < rows.height; y++) {
        const uint8_t *row = rows.pixels + y * rows.stride;
        if (image->channels == 3) {
            sum += colour_kernels(0)->sum_levels(row, row_bytes / 3);
            continue;
        }
        for (size_t i = 0; i < row_bytes; i++)
            sum += row[i];
    }
    return (float)((double)sum / ((double)image->width * (double)image->height));
}

void image_contrast(struct image *image, double factor) {
    if (image->width == 0 || image->height == 0)
        return;
    const float mean = mean_level(image), rest = (float)(1.0 - factor);
    uint8_t table[256];
    for (uint32_t i = 0; i < 256; i++)
        table[i] = cut(fmaf(mean, rest, (float)i * (float)factor));
    map(image, table);
}

void image_saturation(struct image *image, double factor) {
    if (image->channels == 1)
        return;
    size_t row_bytes;
    const struct image rows = in_rows(image, &row_bytes);
    for (uint32_t y = 0; y < rows.height; y++)
        colour_kernels(0)->saturate(rows.pixels + y * rows.stride, row_bytes / 3, (float)factor,
                                    (float)(1.0 - factor));
}

void image_hue(struct image *image, double turn) {
    if (image->channels == 1)
        return;
    size_t row_bytes;
    const struct image rows = in_rows(image, &row_bytes);
    for (uint32_t y = 0; y < rows.height; y++)
        colour_kernels(0)->hue(rows.pixels + y * rows.stride, row_bytes / 3, (float)turn);
}

void image_grayscale(struct image *image) {
    if (image->channels == 1)
        return;
    size_t row_bytes;
    const struct image rows = in_rows(image, &row_bytes);
    for (uint32_t y = 0; y < rows.height; y++)
        colour_kernels(0)->grayscale(rows.pixels + y * rows.stride, row_bytes / 3);
}

void image_erase(struct image *image, struct image_rect rect, const uint8_t fill[3]) {
    if (rect.x >= image->width || rect.y >= image->height)
        return;
    const uint32_t width = rect.width < image->width - rect.x ? rect.width : image->width - rect.x;
    const uint32_t height = rect.height < image->height - rect.y ? rect.height : image->height - rect.y;
    const size_t channels = image->channels;
    for (uint32_t y = 0; y < height; y++) {
        uint8_t *row = image->pixels + (rect.y + y) * image->stride + rect.x * channels;
        for (size_t i = 0; i < width; i++)
            memcpy(row + i * channels, fill, channels);
    }
}

void image_invert(struct image *image) {
    uint8_t table[256];
    for (uint32_t i = 0; i < 256; i++)
        table[i] = (uint8_t)(255 - i);
    map(image, table);
}

void image_posterize(struct image *image, uint32_t bits) {
    uint8_t table[256];
    for (uint32_t i = 0; i < 256; i++)
        table[i] = bits < 8 ? (uint8_t)(i >> (8 - bits) << (8 - bits)) : (uint8_t)i;
    map(image, table);
}

void image_solarize(struct image *image, double threshold) {
    uint8_t table[256];
    for (uint32_t i = 0; i < 256; i++)
        table[i] = (uint8_t)((float)i >= (float)threshold ? 255 - i : i);
    map(image, table);
}

void image_autocontrast(struct image *image) {
    size_t row_bytes;
    const struct image rows = in_rows(image, &row_bytes);
    uint8_t least[3] = {255, 255, 255}, greatest[3] = {0, 0, 0}, tables[3][256];
    for (uint32_t y = 0; y < rows.height; y++)
        colour_kernels(0)->range(rows.pixels + y * rows.stride, row_bytes, image->channels, least, greatest);
    for (uint32_t c = 0; c < image->channels; c++) {
        const bool flat = least[c] >= greatest[c];
        const float scale = flat ? 1.0f : (float)(greatest[c] - least[c]) * (1.0f / 255.0f);
        for (uint32_t i = 0; i < 256; i++)
            tables[c][i] = cut(((float)i - (flat ? 0.0f : (float)least[c])) / scale);
    }
    map_channels(image, tables);
}

// The table of one channel. Of the pixels that do not have its greatest value, each of 255 steps has as many.
static void equalize(const uint32_t counts[256], uint8_t table[256]) {
    uint32_t all = 0, greatest = 0;
    for (uint32_t i = 0; i < 256; i++) {
        all += counts[i];
        greatest = counts[i] > 0 ? i : greatest;
    }
    const uint32_t step = (all - counts[greatest]) / 255;
    uint32_t below = step / 2;
    for (uint32_t i = 0; i < 256; i++) {
        const uint32_t level = step == 0 ? i : below / step;
        table[i] = (uint8_t)(level < 255 ? level : 255);
        below += counts[i];
    }
}

void image_equalize(struct image *image) {
    uint32_t counts[3][256] = {0};
    const size_t row_bytes = (size_t)image->width * image->channels;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->pixels + y * image->stride;
        if (image->channels == 1)
            for (size_t i = 0; i < row_bytes; i++)
                counts[0][row[i]]++;
        else
            for (size_t i = 0; i < row_bytes; i += 3) {
                counts[0][row[i]]++;
                counts[1][row[i + 1]]++;
                counts[2][row[i + 2]]++;
            }
    }
    uint8_t tables[3][256];
    for (uint32_t c = 0; c < image->channels; c++)
        equalize(counts[c], tables[c]);
    map_channels(image, tables);
}

void image_sharpness(struct image *image, double factor, uint8_t *scratch) {
    if (image->width < 3 || image->height < 3)
        return;
    const size_t row_bytes = (size_t)image->width * image->channels;
    uint8_t *above = scratch, *row = scratch + row_bytes; // as they were
    memcpy(above, image->pixels, row_bytes);
    for (uint32_t y = 1; y + 1 < image->height; y++) {
        uint8_t *to = image->pixels + y * image->stride;
        memcpy(row, to, row_bytes);
        colour_kernels(0)->sharpen(to, above, row, to + image->stride, row_bytes, image->channels,
                                   (float)(1.0 - factor));
        uint8_t *last = above;
        above = row;
        row = last;
    }
}
