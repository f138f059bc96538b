#include "daemon/loader/stage/stage_set.h"

#include <sys/stat.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/loader/stage/gpu_image_stage.h"
#include "daemon/loader/stage/guarded_cache.h"
#include "daemon/loader/stage/image_stage.h"
#include "daemon/loader/stage/transform_stage.h"
#include "daemon/log.h"

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
        if (image->used && !(gpu_images && gpu_images_has(layout, i)))
            image_stage_use_layout(set->of_field[i], layout, i);
    }
    return 0;
}

static bool is_file(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

void stage_set_open_cache(struct stage_set *set, const struct dataset_layout *layout, int memory_fd,
                          int file_fd) {
    const uint64_t entries = dataset_cache_entries(layout);
    struct error error = {0};
    if (!entries || !is_file(memory_fd))
        return;
    if (guarded_cache_open(&set->cache, entries, memory_fd, is_file(file_fd) ? file_fd : -1, &error) < 0) {
        log_error("images are decoded each time: %s", error.text);
        return;
    }
    for (uint32_t i = 0; i < layout->field_count; i++)
        if (layout->cache.number[i] && set->of_field[i])
            image_stage_use_cache(set->of_field[i], set->cache);
}

void stage_set_close(struct stage_set *set) {
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++)
        if (set->of_field[i])
            set->of_field[i]->ops->close(set->of_field[i]);
    guarded_cache_close(set->cache);
    *set = (struct stage_set){0};
}
