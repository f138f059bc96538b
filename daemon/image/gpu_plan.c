#include "daemon/image/gpu_plan.h"

#include <string.h>

#include "base/sizes.h"
#include "daemon/image/resize.h"

#define SIDE_LEAST 16u // below that, the library interpolates colours in other ways
#define MARGIN     2u  // pixels whose colours depend on a pixel beside them
#define GRID       16u // the engine decodes whole blocks

// From `first` to the end of `count` pixels, with a margin, in whole blocks.
static void cover(uint32_t first, uint32_t count, uint32_t whole, uint32_t *begin, uint32_t *length) {
    *begin = first > MARGIN ? (first - MARGIN) / GRID * GRID : 0;
    *length = (uint32_t)min_u64(align_up((uint64_t)first + count + MARGIN, GRID), whole) - *begin;
}

// `needed`: pixels of the image after its orientation, which begin in the crop.
static void place(const struct image_jpeg_survey *survey, struct image_orientation turned,
                  const struct image_rect *crop, struct image_rect needed, struct image_record *record) {
    needed.x += crop->x;
    needed.y += crop->y;
    needed = image_rect_stored(turned, needed, survey->width, survey->height);
    cover(needed.x, needed.width, survey->width, &record->x, &record->width);
    cover(needed.y, needed.height, survey->height, &record->y, &record->height);
    const struct image_box stored = {record->x, record->y, record->x + record->width,
                                     record->y + record->height};
    const struct image_box part = image_box_oriented(turned, stored, survey->width, survey->height);
    record->crop_x = (int32_t)crop->x - (int32_t)part.left;
    record->crop_y = (int32_t)crop->y - (int32_t)part.top;
}

enum image_gpu_fit image_gpu_takes(const struct image_jpeg_survey *survey) {
    if (!survey->baseline)
        return IMAGE_GPU_CODING;
    if (!survey->regular_colours)
        return IMAGE_GPU_COLOURS;
    if (!survey->plain)
        return IMAGE_GPU_ENDING;
    if (survey->width < SIDE_LEAST || survey->height < SIDE_LEAST ||
        (uint64_t)survey->width * survey->height > IMAGE_RECORD_WHOLE_MOST)
        return IMAGE_GPU_SIZE;
    return IMAGE_GPU_FITS;
}

enum image_gpu_fit image_gpu_plan(const struct image_plan *plan, const struct image_jpeg_survey *survey,
                                  struct image_orientation turned, uint64_t area,
                                  struct image_record *record) {
    const struct image_pass *pass = &plan->passes[0];
    const struct image_resize *resize = &pass->resize;
    struct image_rect needed = resize->part;
    const enum image_gpu_fit taken = image_gpu_takes(survey);
    if (taken != IMAGE_GPU_FITS)
        return taken;
    if (plan->count != 1 || !resize->part.width)
        return IMAGE_GPU_STEPS;
    if (pass->resized)
        image_resize_needs(resize, &needed);
    *record = (struct image_record){
        .kind = IMAGE_RECORD_JPEG,
        .sampling = survey->sampling,
        .flags = (pass->mirrored ? IMAGE_RECORD_MIRRORED : 0) | (pass->flipped ? IMAGE_RECORD_FLIPPED : 0) |
                 (pass->resized && image_resize_order_13(resize) ? IMAGE_RECORD_COLUMNS_FIRST : 0) |
                 (pass->resized && resize->filter == IMAGE_BICUBIC ? IMAGE_RECORD_BICUBIC : 0) |
                 (turned.from_right ? IMAGE_RECORD_FROM_RIGHT : 0) |
                 (turned.from_bottom ? IMAGE_RECORD_FROM_BOTTOM : 0) |
                 (turned.swapped ? IMAGE_RECORD_SWAPPED : 0),
        .crop_width = pass->crop.width,
        .crop_height = pass->crop.height,
        .result_width = resize->width,
        .result_height = resize->height,
        .part_x = resize->part.x,
        .part_y = resize->part.y,
        .part_width = resize->part.width,
        .part_height = resize->part.height,
        .left = pass->left,
        .top = pass->top,
    };
    memcpy(record->fill, pass->fill, sizeof pass->fill);
    record->image_width = survey->width;
    record->image_height = survey->height;
    place(survey, turned, &pass->crop, needed, record);
    if (image_record_plane_bytes(record) > area)
        return IMAGE_GPU_SIZE;
    return image_record_fits(record, area) ? IMAGE_GPU_FITS : IMAGE_GPU_STEPS;
}
