#include "daemon/loader/stage/stage_set.h"

#include <sys/stat.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/loader/stage/image_stage.h"
#include "daemon/loader/stage/transform_stage.h"

int stage_set_open(struct stage_set *set, const struct dataset_layout *layout,
                   const struct ring_field *fields, struct error *error) {
    *set = (struct stage_set){0};
    for (uint32_t i = 0; i < layout->field_count && i < RING_MAX_FIELDS; i++) {
        const struct transform *transform = &layout->transforms[i];
        if (!transform->stored)
            continue;
        const uint64_t delivered = fields[i].sample_bytes;
        const struct dataset_image *image = &layout->images[i];
        int err = image->used ? image_stage_open(image, transform, delivered, &set->of_field[i], error)
                              : transform_stage_open(transform, delivered, &set->of_field[i], error);
        if (err) {
            stage_set_close(set);
            error_prefix(error, "field %u of the dataset", i);
            return err;
        }
    }
    return 0;
}

static bool is_file(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

int stage_set_open_cache(struct stage_set *set, const struct dataset_layout *layout, int memory_fd,
                         int file_fd, struct error *error) {
    const uint64_t entries = dataset_cache_entries(layout);
    if (!entries || !is_file(memory_fd))
        return 0;
    struct sample_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return error_set(error, -ENOMEM, "out of memory");
    int err = sample_cache_open(cache, entries, memory_fd, is_file(file_fd) ? file_fd : -1, error);
    if (err) {
        free(cache);
        return err;
    }
    set->cache = cache;
    for (uint32_t i = 0; i < layout->field_count; i++)
        if (layout->cache.number[i] && set->of_field[i])
            image_stage_use_cache(set->of_field[i], cache, layout, i);
    return 0;
}

void stage_set_close(struct stage_set *set) {
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++)
        if (set->of_field[i])
            set->of_field[i]->ops->close(set->of_field[i]);
    if (set->cache)
        sample_cache_close(set->cache);
    free(set->cache);
    *set = (struct stage_set){0};
}
