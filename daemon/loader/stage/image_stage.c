#include "daemon/loader/stage/image_stage.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/sizes.h"
#include "daemon/image/pipeline.h"
#include "daemon/loader/stage/guarded_cache.h"
#include "daemon/loader/stage/image_table.h"
#include "daemon/loader/stage/mask_size.h"
#include "daemon/loader/stage/transform_run.h"

struct image_stage {
    struct stage stage;
    const struct dataset_image *image;
    const struct transform *transform;
    struct image_pipeline *pipeline;
    // What the values 0..255 of each channel become. If what a value becomes depends on the others of its sample, or is
    // larger, the pixels go to `pixels` first.
    uint8_t table[IMAGE_TABLE_BYTES];
    uint8_t *pixels;
    const struct dataset_layout *layout;
    uint32_t field;             // this stage's in there
    uint32_t followed;          // the field whose steps this one takes, as a mask; NO_FIELD: none
    struct sample_cache *cache; // of decoded images; NULL: none
};

static int image_bytes_needed(const struct stage *stage, uint64_t stored_bytes, uint64_t *bytes) {
    const struct image_stored *stored = &((const struct image_stage *)stage)->image->stored;
    if (!stored->encoded && stored_bytes != (uint64_t)stored->width * stored->height * stored->channels)
        return -EINVAL;
    *bytes = max_u64(stored_bytes, 1);
    return 0;
}

// What becomes an entry of the cache.
struct keeping {
    struct sample_cache *cache;
    uint64_t entry;
};

static void keep(void *context, const struct image *image) {
    const struct keeping *keeping = context;
    guarded_cache_store(keeping->cache, keeping->entry, image);
}

// The only sample of a run.
static int run_cached(struct image_stage *self, const struct stage_run *run, const struct image_place *place,
                      uint8_t *to, struct error *error) {
    const uint32_t channels = self->image->steps.channels;
    struct keeping keeping = {self->cache,
                              dataset_cache_entry(self->layout, self->field, run->stored_sample)};
    struct sample_cached cached = run->cached;
    if (!cached.pixels) // it may have been kept since the chunk was planned
        cached = guarded_cache_find(self->cache, keeping.entry, channels);
    if (cached.pixels) {
        const struct image image = {(uint8_t *)(uintptr_t)cached.pixels, cached.width, cached.height,
                                    channels, (size_t)cached.width * channels};
        const int err = guarded_cache_run(self->cache, self->pipeline, &image, place, to, error);
        self->cache->counts.found += !error_is_lack(err); // then it is tried again
        return err;
    }
    // Where there is no room, only what is delivered has to be resized.
    return self->cache->full
               ? image_pipeline_run(self->pipeline, run->stored, run->stored_bytes, place, to, error)
               : image_pipeline_run_and_keep(self->pipeline, run->stored, run->stored_bytes, place, to, keep,
                                             &keeping, error);
}

static int check_size(const struct image_stage *self, const struct stage_run *run, struct error *error) {
    const struct stage_sample mask = {run->stored, run->stored_bytes, run->cached};
    struct stage_sample image;
    return self->followed != NO_FIELD && run->find && run->find(run->context, self->followed, &image)
               ? mask_size_check(self->layout, self->field, &mask, self->followed, &image, error)
               : 0;
}

static void image_stage_run(struct stage *stage, const struct stage_run *run) {
    struct image_stage *self = (struct image_stage *)stage;
    for (uint32_t i = 0; i < run->count; i++) {
        struct error error = {0};
        const struct image_place place = {run->seed, run->epoch, run->first_position + i};
        uint8_t *delivered = run->delivered + i * run->delivered_bytes;
        uint8_t *to = self->pixels ? self->pixels : delivered;
        int err = check_size(self, run, &error);
        if (!err)
            err = self->cache ? run_cached(self, run, &place, to, &error)
                              : image_pipeline_run(self->pipeline, run->stored + i * run->stored_bytes,
                                                   run->stored_bytes, &place, to, &error);
        if (err)
            stage_refuse(run, i, image_refusal_code(err), "%s", error.text);
        else if (self->pixels)
            transform_run(self->transform, self->pixels, delivered, 1);
    }
}

static void image_close(struct stage *stage) {
    struct image_stage *self = (struct image_stage *)stage;
    image_pipeline_close(self->pipeline);
    free(self->pixels);
    free(self);
}

static const struct stage_ops image_ops = {
    .name = "image steps",
    .slow = true,
    .bytes_needed = image_bytes_needed,
    .run = image_stage_run,
    .close = image_close,
};

static int open_pipeline(struct image_stage *self, struct error *error) {
    const struct transform *transform = self->transform;
    const uint32_t bytes = dtype_bytes(transform->target);
    struct image_finish finish = {.element_bytes = 1};
    if (!transform->step_count && transform->target == DTYPE_U8) {
        finish.planes = transform->planes; // as they are
    } else if (transform_is_of_values(transform) && bytes <= IMAGE_TABLE_ELEMENT) {
        image_table_make(transform, self->image->steps.channels, self->table);
        finish =
            (struct image_finish){.table = self->table, .element_bytes = bytes, .planes = transform->planes};
    } else {
        self->pixels = malloc(transform->elements);
        if (!self->pixels)
            return error_set(error, -ENOMEM, "no memory for the pixels of an image");
    }
    return image_pipeline_open(&self->pipeline, &self->image->steps, &self->image->stored, &finish, error);
}

int image_stage_open(const struct dataset_image *image, const struct transform *transform,
                     uint64_t delivered_bytes, struct stage **stage, struct error *error) {
    const struct image_steps *steps = &image->steps;
    const uint64_t pixels = (uint64_t)steps->width * steps->height;
    *stage = NULL;
    if (!steps->channels || steps->channels > IMAGE_TABLE_CHANNELS ||
        pixels * steps->channels != transform->elements ||
        transform->elements * dtype_bytes(transform->target) != delivered_bytes ||
        transform->step_count > TRANSFORM_MAX_STEPS)
        return error_set(error, -EINVAL,
                         "found images of %" PRIu64 " pixels, wanted samples of %" PRIu64 " bytes", pixels,
                         delivered_bytes);
    struct image_stage *self = calloc(1, sizeof *self);
    if (!self)
        return error_set(error, -ENOMEM, "no memory for the steps of an image");
    self->stage.ops = &image_ops;
    self->image = image;
    self->transform = transform;
    self->followed = NO_FIELD;
    int err = open_pipeline(self, error);
    if (err)
        image_close(&self->stage);
    else
        *stage = &self->stage;
    return err;
}

void image_stage_use_layout(struct stage *stage, const struct dataset_layout *layout, uint32_t field) {
    struct image_stage *self = (struct image_stage *)stage;
    self->layout = layout;
    self->field = field;
    self->followed = mask_size_followed(layout, field);
}

void image_stage_use_cache(struct stage *stage, struct sample_cache *cache) {
    ((struct image_stage *)stage)->cache = cache;
}
