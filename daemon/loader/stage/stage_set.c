#include "daemon/loader/stage/stage_set.h"

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/loader/stage/gpu_image_stage.h"
#include "daemon/loader/stage/image_stage.h"
#include "daemon/loader/stage/transform_stage.h"

int stage_set_open(struct stage_set *set, const struct dataset_layout *layout,
                   const struct ring_field *fields, bool gpu_images, struct error *error) {
    *set = (struct stage_set){0};
    for (uint32_t i = 0; i < layout->field_count && i < RING_MAX_FIELDS; i++) {
        const struct transform *transform = &layout->transforms[i];
        if (!transform->stored)
            continue;
        const uint64_t delivered = fields[i].sample_bytes;
        const struct dataset_image *image = &layout->images[i];
        int err = gpu_images && gpu_images_has(layout, i)
                      ? gpu_image_stage_open(layout, i, delivered, &set->of_field[i], error)
                  : image->used ? image_stage_open(image, transform, delivered, &set->of_field[i], error)
                                : transform_stage_open(transform, delivered, &set->of_field[i], error);
        if (err) {
            stage_set_close(set);
            error_prefix(error, "field %u of the dataset", i);
            return err;
        }
    }
    return 0;
}

void stage_set_close(struct stage_set *set) {
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++)
        if (set->of_field[i])
            set->of_field[i]->ops->close(set->of_field[i]);
    *set = (struct stage_set){0};
}
