#include "daemon/loader/stage/mask_size.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/image/codec.h"
#include "daemon/image/geometry.h"

uint32_t mask_size_followed(const struct dataset_layout *layout, uint32_t field) {
    const struct dataset_image *image = &layout->images[field];
    for (uint32_t i = 0; image->used && image->steps.with[0] && i < layout->field_count; i++)
        if (layout->images[i].used && strcmp(layout->fields[i].name, image->steps.with) == 0)
            return i;
    return NO_FIELD;
}

// What a cache would keep of an image of that size.
static bool resize(const struct image_steps *steps, uint32_t *width, uint32_t *height) {
    const struct image_steps before = {
        .channels = steps->channels, .side = steps->side, .side_filter = steps->side_filter};
    const struct image_place any = {0};
    struct image_plan plan;
    if (!steps->side)
        return true;
    if (image_plan_make(&plan, &before, *width, *height, &any, NULL))
        return false;
    *width = plan.passes[plan.count - 1].width;
    *height = plan.passes[plan.count - 1].height;
    return true;
}

static bool find_size(const struct dataset_image *image, const struct stage_sample *sample, uint32_t *width,
                      uint32_t *height, struct error *error) {
    struct image_header header;
    *width = image->stored.width;
    *height = image->stored.height;
    if (sample->cached.pixels) {
        *width = sample->cached.width;
        *height = sample->cached.height;
        return true;
    }
    if (image->stored.encoded) {
        if (image_read_header(sample->stored, sample->bytes, &header, error))
            return false;
        *width = header.width;
        *height = header.height;
        if (image->steps.flags & IMAGE_STEPS_EXIF)
            image_oriented_size(&header, width, height);
    }
    return resize(&image->steps, width, height);
}

int mask_size_check(const struct dataset_layout *layout, uint32_t mask,
                    const struct stage_sample *mask_stored, uint32_t image,
                    const struct stage_sample *image_stored, struct error *error) {
    uint32_t width, height, image_width, image_height;
    struct error why = {0};
    if (!find_size(&layout->images[mask], mask_stored, &width, &height, &why) ||
        !find_size(&layout->images[image], image_stored, &image_width, &image_height, &why))
        return error_is_lack(why.code) ? error_set(error, why.code, "%s", why.text) : 0;
    if (width == image_width && height == image_height)
        return 0;
    return error_set(error, -EBADMSG,
                     "its mask has %" PRIu32 " x %" PRIu32 " pixels%s, %s has %" PRIu32 " x %" PRIu32, width,
                     height, layout->images[mask].steps.side ? " at cache_size" : "",
                     layout->fields[image].name, image_width, image_height);
}
