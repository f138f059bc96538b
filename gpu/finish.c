#include "gpu/finish.h"

#include <string.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "gpu/finish_math.h"

bool gpu_finishes(const struct gpu *gpu) {
    return gpu->operations->finish != NULL;
}

int gpu_finish(struct gpu *gpu, gpu_stream stream, const struct finish_batch *batch, struct error *error) {
    if (!gpu_finishes(gpu))
        return error_set(error, -ENOTSUP, "this build cannot finish images on %s: it was made without nvcc",
                         gpu->name);
    return batch->count ? gpu->operations->finish(gpu, stream, batch, error) : 0;
}

// ---- In host memory ----------------------------------------------------------------------------------------

struct axis {
    uint32_t begin, count;
    int32_t weights[IMAGE_RECORD_TAPS];
};

struct host_image {
    const struct finish_batch *batch;
    struct image_record record;
    const uint8_t *pixels;
    struct finish_planes planes;
    uint8_t *output;
    struct axis *across, *down; // of the part
};

static void *at(uint64_t address) {
    return (void *)(uintptr_t)address;
}

static void put(const struct host_image *image, uint32_t x, uint32_t y, const uint8_t *value) {
    const struct finish_batch *batch = image->batch;
    const uint8_t *table = at(batch->table);
    const uint32_t element = batch->element_bytes, channels = batch->channels == 1 ? 1 : 3;
    for (uint32_t channel = 0; channel < channels; channel++) {
        uint64_t place = batch->planes ? ((uint64_t)channel * batch->height + y) * batch->width + x
                                       : ((uint64_t)y * batch->width + x) * channels + channel;
        memcpy(image->output + place * element, table + (channel * 256 + value[channel]) * element, element);
    }
}

static struct finish_pixel fetch(const struct host_image *image, uint32_t x, uint32_t y) {
    const struct image_record *record = &image->record;
    int64_t column = (int64_t)record->crop_x + x, row = (int64_t)record->crop_y + y;
    const int64_t width = finish_turned_width(record), height = finish_turned_height(record);
    column = column < 0 ? 0 : column >= width ? width - 1 : column;
    row = row < 0 ? 0 : row >= height ? height - 1 : row;
    return finish_turned_pixel_at(record, &image->planes, (uint32_t)column, (uint32_t)row);
}

// One result: along the first axis for each line of the second, with 8 bits in between.
static struct finish_pixel resize(const struct host_image *image, uint32_t x, uint32_t y) {
    bool columns = image->record.flags & IMAGE_RECORD_COLUMNS_FIRST;
    const struct axis *first = columns ? &image->down[y] : &image->across[x];
    const struct axis *second = columns ? &image->across[x] : &image->down[y];
    int32_t sums[3] = {1 << (FINISH_PRECISION - 1), 1 << (FINISH_PRECISION - 1), 1 << (FINISH_PRECISION - 1)};
    struct finish_pixel result = {{0}};
    for (uint32_t j = 0; j < second->count; j++) {
        int32_t line[3] = {1 << (FINISH_PRECISION - 1), 1 << (FINISH_PRECISION - 1),
                           1 << (FINISH_PRECISION - 1)};
        for (uint32_t i = 0; i < first->count; i++) {
            struct finish_pixel pixel = columns ? fetch(image, second->begin + j, first->begin + i)
                                                : fetch(image, first->begin + i, second->begin + j);
            for (int channel = 0; channel < 3; channel++)
                line[channel] += pixel.value[channel] * first->weights[i];
        }
        for (int channel = 0; channel < 3; channel++)
            sums[channel] += finish_round(line[channel]) * second->weights[j];
    }
    for (int channel = 0; channel < 3; channel++)
        result.value[channel] = finish_round(sums[channel]);
    return result;
}

static void weigh(struct axis *axis, uint32_t source, uint32_t results, uint32_t first, uint32_t count,
                  bool bicubic) {
    struct finish_window window = finish_window_of(source, results, bicubic);
    for (uint32_t i = 0; i < count; i++) {
        const struct finish_weights weights = finish_weights_of(&window, first + i);
        axis[i].begin = weights.begin;
        axis[i].count = weights.count;
        for (uint32_t tap = 0; tap < weights.count; tap++)
            axis[i].weights[tap] = finish_weigh(&window, &weights, tap);
    }
}

static void finish_planes(struct host_image *image) {
    const struct image_record *record = &image->record;
    bool bicubic = record->flags & IMAGE_RECORD_BICUBIC;
    AUTO_FREE struct axis *axes =
        calloc((size_t)record->part_width + record->part_height + 1, sizeof(struct axis));
    if (!axes)
        return;
    image->planes = finish_planes_of(record, image->pixels, image->batch->channels == 1);
    image->across = axes;
    image->down = axes + record->part_width;
    weigh(image->across, record->crop_width, record->result_width, record->part_x, record->part_width,
          bicubic);
    weigh(image->down, record->crop_height, record->result_height, record->part_y, record->part_height,
          bicubic);
    for (uint32_t y = 0; y < image->batch->height; y++)
        for (uint32_t x = 0; x < image->batch->width; x++) {
            uint32_t column = x - record->left,
                     row = y - record->top; // outside of the part if they wrap around
            bool inside = column < record->part_width && row < record->part_height;
            struct finish_pixel pixel = {{record->fill[0], record->fill[1], record->fill[2], 0}};
            if (inside && record->flags & IMAGE_RECORD_MIRRORED)
                column = record->part_width - 1 - column;
            if (inside && record->flags & IMAGE_RECORD_FLIPPED)
                row = record->part_height - 1 - row;
            if (inside)
                pixel = resize(image, column, row);
            put(image, x, y, pixel.value);
        }
}

static void finish_pixels(const struct host_image *image, bool black) {
    static const uint8_t nothing[3] = {0};
    const struct finish_batch *batch = image->batch;
    const uint8_t *pixel = image->pixels;
    for (uint32_t y = 0; y < batch->height; y++)
        for (uint32_t x = 0; x < batch->width; x++, pixel += batch->channels)
            put(image, x, y, black ? nothing : pixel);
}

void finish_on_host(const struct finish_batch *batch) {
    const uint64_t values = (uint64_t)batch->width * batch->height * batch->channels;
    for (uint32_t i = 0; i < batch->count; i++) {
        struct host_image image = {.batch = batch,
                                   .pixels = (const uint8_t *)at(batch->pixels) + i * batch->area,
                                   .output =
                                       (uint8_t *)at(batch->output) + i * values * batch->element_bytes};
        memcpy(&image.record, (const struct image_record *)at(batch->records) + i, sizeof image.record);
        if (image.record.kind == IMAGE_RECORD_PLANES && image_record_fits(&image.record, batch->area))
            finish_planes(&image);
        else
            finish_pixels(&image, image.record.kind != IMAGE_RECORD_PIXELS || values > batch->area);
    }
}
