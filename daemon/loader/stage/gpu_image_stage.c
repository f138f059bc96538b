#include "daemon/loader/stage/gpu_image_stage.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/image/codec.h"
#include "daemon/image/exif.h"
#include "daemon/image/gpu_plan.h"
#include "daemon/image/pipeline.h"
#include "daemon/loader/stage/image_table.h"
#include "shm/stats.h"

struct gpu_image_stage {
    struct stage stage;
    const struct dataset_image *image;
    uint64_t ring_area, pool_area;
    struct image_jpeg *jpeg;
    struct image_pipeline *pipeline; // for what the GPU cannot make
    uint64_t pixel_bytes;            // of what that makes
    struct image_plan plan;
};

static int bytes_needed(const struct stage *stage, uint64_t stored_bytes, uint64_t *bytes) {
    (void)stage;
    *bytes = max_u64(stored_bytes, 1);
    return 0;
}

// Of the JPEG; of the image as it is looked at, *width and *height.
static struct image_orientation orientation_of(const struct gpu_image_stage *self, const uint8_t *bytes,
                                               size_t count, uint32_t *width, uint32_t *height) {
    struct image_header header = {.format = IMAGE_JPEG, .width = *width, .height = *height, .orientation = 1};
    if (self->image->steps.flags & IMAGE_STEPS_EXIF)
        header.orientation = exif_of_jpeg(bytes, count);
    image_oriented_size(&header, width, height);
    return *image_orientation(header.orientation);
}

// Returns an enum image_gpu_fit, or -ENOMEM. Unless the image fits, the CPU has to make it, or to say what is wrong
// with it.
static int plan_for_gpu(struct gpu_image_stage *self, const uint8_t *bytes, size_t count,
                        const struct image_place *place, struct image_record *record, struct error *error) {
    struct image_jpeg_survey survey;
    if (count < 4 || bytes[0] != 0xFF || bytes[1] != 0xD8)
        return IMAGE_GPU_FORMAT;
    const int err = image_jpeg_look(self->jpeg, bytes, count, &survey, error);
    if (err)
        return error_is_lack(err) ? err : IMAGE_GPU_ENDING;
    const enum image_gpu_fit taken = image_gpu_takes(&survey);
    if (taken != IMAGE_GPU_FITS)
        return taken;
    if (count > self->ring_area)
        return IMAGE_GPU_SIZE;
    uint32_t width = survey.width, height = survey.height;
    const struct image_orientation turned = orientation_of(self, bytes, count, &width, &height);
    if (image_plan_make(&self->plan, &self->image->steps, width, height, place, NULL) < 0)
        return IMAGE_GPU_STEPS;
    return image_gpu_plan(&self->plan, &survey, turned, self->pool_area, record);
}

static void tally(struct stats_loader *stats, enum image_gpu_fit fit) {
    static const enum loader_counter counters[] = {
        [IMAGE_GPU_FITS] = LOADER_gpu_images,     [IMAGE_GPU_FORMAT] = LOADER_unfit_format,
        [IMAGE_GPU_CODING] = LOADER_unfit_coding, [IMAGE_GPU_COLOURS] = LOADER_unfit_colours,
        [IMAGE_GPU_ENDING] = LOADER_unfit_ending, [IMAGE_GPU_SIZE] = LOADER_unfit_size,
        [IMAGE_GPU_STEPS] = LOADER_unfit_steps,
    };
    if (stats)
        stats_add(&stats->counters[counters[fit]], 1);
}

static int make(struct gpu_image_stage *self, const uint8_t *bytes, size_t count,
                const struct image_place *place, uint8_t *delivered, struct stats_loader *stats,
                struct error *error) {
    struct image_record record = {0};
    const int fit = plan_for_gpu(self, bytes, count, place, &record, error);
    int err = 0;
    if (fit < 0)
        return fit;
    if (fit == IMAGE_GPU_FITS) {
        record.bytes = (uint32_t)count;
        memcpy(delivered + sizeof record, bytes, count);
    } else {
        record = (struct image_record){.kind = IMAGE_RECORD_PIXELS, .bytes = (uint32_t)self->pixel_bytes};
        err = image_pipeline_run(self->pipeline, bytes, count, place, delivered + sizeof record, error);
    }
    memcpy(delivered, &record, sizeof record);
    if (!err)
        tally(stats, (enum image_gpu_fit)fit);
    return err;
}

static void run(struct stage *stage, const struct stage_run *run) {
    struct gpu_image_stage *self = (struct gpu_image_stage *)stage;
    for (uint32_t i = 0; i < run->count; i++) {
        struct error error = {0};
        const struct image_place place = {run->seed, run->epoch, run->first_position + i};
        int err = make(self, run->stored + i * run->stored_bytes, run->stored_bytes, &place,
                       run->delivered + i * run->delivered_bytes, run->stats, &error);
        if (err)
            stage_refuse(run, i, image_refusal_code(err), "%s", error.text);
    }
}

static void close_stage(struct stage *stage) {
    struct gpu_image_stage *self = (struct gpu_image_stage *)stage;
    image_pipeline_close(self->pipeline);
    image_jpeg_close(self->jpeg);
    free(self);
}

static const struct stage_ops ops = {
    .name = "image steps",
    .slow = true,
    .bytes_needed = bytes_needed,
    .run = run,
    .close = close_stage,
};

int gpu_image_stage_open(const struct dataset_layout *layout, uint32_t field, uint64_t delivered_bytes,
                         struct stage **stage, struct error *error) {
    static const struct image_finish as_it_is = {.element_bytes = 1};
    const struct dataset_image *image = &layout->images[field];
    *stage = NULL;
    if (IMAGE_RECORD_BYTES + gpu_images_ring_area(layout, field) != delivered_bytes)
        return error_set(error, -EINVAL, "found %" PRIu64 " bytes per image in the ring, wanted %" PRIu64,
                         delivered_bytes, IMAGE_RECORD_BYTES + gpu_images_ring_area(layout, field));
    struct gpu_image_stage *self = calloc(1, sizeof *self);
    if (!self)
        return error_set(error, -ENOMEM, "no memory for the steps of an image");
    self->stage.ops = &ops;
    self->image = image;
    self->ring_area = gpu_images_ring_area(layout, field);
    self->pool_area = gpu_images_pool_area(layout, field);
    self->pixel_bytes = (uint64_t)image->steps.width * image->steps.height * image->steps.channels;
    int err = image_jpeg_open(&self->jpeg, error);
    if (!err)
        err = image_pipeline_open(&self->pipeline, &image->steps, &image->stored, &as_it_is, error);
    if (err)
        close_stage(&self->stage);
    else
        *stage = &self->stage;
    return err;
}
