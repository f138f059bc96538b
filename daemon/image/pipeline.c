#include "daemon/image/pipeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/image/codec.h"
#include "daemon/image/colour_steps.h"
#include "daemon/image/resize.h"
#include "daemon/image/scratch.h"

// What a pass makes by resizing, and by putting that into its output. There are two of each, because the input of a
// pass may lie in those of an earlier one.
enum {
    BUFFER_RESIZED,
    BUFFER_PLACED,
    BUFFERS_OF_PASS
};

struct image_pipeline {
    const struct image_steps *steps;
    struct image_steps before,
        after; // of these: what makes the image that a cache keeps, and the steps from there on
    struct image_stored stored;
    struct image_finish finish;
    struct image_decoder *decoder; // NULL: pixels are stored
    struct image_resizer *resizer;
    struct image_scratch buffers[2 * BUFFERS_OF_PASS];
    struct image_scratch own; // a copy of stored pixels, for steps of colours
    bool colours;
    struct image_plan plan;
};

// One image on its way.
struct work {
    struct image_pipeline *pipeline;
    const uint8_t *bytes;
    size_t count;
    struct image_header header;
    uint32_t width, height; // of the image as it is stored, after any orientation
    const struct image_place *place;
    struct image image; // the output of the latest pass
    bool encoded;       // the first pass decodes `bytes`; else its input is `image`
    bool borrowed;      // its pixels are those stored, which must not change
    bool mirror;        // it is still to be mirrored
    uint32_t side;      // which of the two buffers `image` does not lie in
    struct error *error;
};

// ---- Memory ------------------------------------------------------------------------------------------------

static int make_image(struct work *work, struct image_scratch *buffer, uint32_t width, uint32_t height,
                      struct image *image) {
    const uint32_t channels = work->pipeline->steps->channels;
    if ((uint64_t)width * height > IMAGE_MAX_PIXELS)
        return error_set(work->error, -EBADMSG,
                         "it becomes %" PRIu32 " x %" PRIu32 " pixels on its way, wanted at most %u together",
                         width, height, IMAGE_MAX_PIXELS);
    const size_t bytes = (size_t)width * height * channels;
    uint8_t *memory = image_scratch_take(buffer, bytes);
    if (!memory)
        return error_set(work->error, -ENOMEM, "no memory for an image of %zu bytes", bytes);
    *image = (struct image){memory, width, height, channels, (size_t)width * channels};
    return 0;
}

static struct image cut(const struct image *image, struct image_rect rect) {
    return (struct image){image->pixels + rect.y * image->stride + (size_t)rect.x * image->channels,
                          rect.width, rect.height, image->channels, image->stride};
}

// ---- What a pass begins with -------------------------------------------------------------------------------

// The pixels of `rect` of the image. Of images that a cache keeps, all of them are decoded: so an image that is damaged
// somewhere is refused always, and not only when it is to be kept.
static int decode(struct work *work, struct image_rect rect, uint32_t fast_width, uint32_t fast_height,
                  struct image *pixels, struct image_box *box) {
    const struct image_pipeline *pipeline = work->pipeline;
    const struct image_rect whole = {0, 0, work->width, work->height};
    const bool all = pipeline->steps->side && !fast_width;
    const struct image_request request = {
        .header = work->header,
        .channels = pipeline->steps->channels,
        .labels = pipeline->steps->flags & IMAGE_STEPS_LABELS,
        .oriented = pipeline->steps->flags & IMAGE_STEPS_EXIF,
        .rect = all ? whole : rect,
        .fast_width = fast_width,
        .fast_height = fast_height,
    };
    int err = image_decode(pipeline->decoder, work->bytes, work->count, &request, pixels, box, work->error);
    if (!err && all)
        *pixels = cut(pixels, rect);
    return err;
}

// The pixels of `rect` of the pass's crop. What the pass before has put out lies somewhere in its input.
static int take(struct work *work, const struct image_pass *pass, struct image_rect rect,
                struct image *pixels) {
    const struct image_pipeline *pipeline = work->pipeline;
    rect.x += pass->crop.x;
    rect.y += pass->crop.y;
    if (pass == pipeline->plan.passes && work->encoded)
        return decode(work, rect, 0, 0, pixels, NULL);
    rect.x -= pass->from_x;
    rect.y -= pass->from_y;
    *pixels = cut(&work->image, rect);
    return 0;
}

// ---- Resizing ----------------------------------------------------------------------------------------------

// `decode fast`: the crop is decoded at a smaller scale, and resized from there.
static int resize_fast(struct work *work, const struct image_pass *pass, struct image *to) {
    struct image_resize resize = pass->resize;
    struct image from;
    int err = decode(work, pass->crop, resize.width, resize.height, &from, &resize.box);
    if (err)
        return err;
    // As for an exact decode: the same bits if no smaller scale is large enough.
    resize.columns_first = image_resize_order_13(&pass->resize);
    resize.source_width = from.width;
    resize.source_height = from.height;
    const struct image_rect whole = {0, 0, from.width, from.height};
    return image_resize_run(work->pipeline->resizer, &resize, &from, whole, to, work->error);
}

static int resize_part(struct work *work, const struct image_pass *pass, struct image_scratch *buffer,
                       struct image *part) {
    const struct image_rect *kept = &pass->resize.part;
    int err = make_image(work, buffer, kept->width, kept->height, part);
    if (err)
        return err;
    if (pass == work->pipeline->plan.passes && work->encoded &&
        work->pipeline->steps->flags & IMAGE_STEPS_FAST)
        return resize_fast(work, pass, part);
    struct image_rect needed;
    struct image from;
    image_resize_needs(&pass->resize, &needed);
    err = take(work, pass, needed, &from);
    if (err)
        return err;
    struct image_resize resize = pass->resize;
    resize.columns_first = image_resize_order_13(&resize);
    return image_resize_run(work->pipeline->resizer, &resize, &from, needed, part, work->error);
}

// ---- The output of a pass ----------------------------------------------------------------------------------

static void copy_row(const struct image *from, uint32_t y, bool mirrored, uint8_t *to) {
    const uint8_t *row = from->pixels + y * from->stride;
    if (mirrored)
        image_mirror_row(row, from->channels, from->width, to);
    else
        memcpy(to, row, (size_t)from->width * from->channels);
}

static void fill(struct image *image, const uint8_t values[3]) {
    uint8_t *next = image->pixels;
    for (size_t pixels = (size_t)image->width * image->height; pixels > 0; pixels--)
        for (uint32_t channel = 0; channel < image->channels; channel++)
            *next++ = values[channel];
}

static void put(const struct image_pass *pass, const struct image *part, struct image *output) {
    if (!image_pass_is_full(pass))
        fill(output, pass->fill);
    for (uint32_t y = 0; part->pixels && y < part->height; y++)
        copy_row(part, pass->flipped ? part->height - 1 - y : y, pass->mirrored,
                 output->pixels + (pass->top + y) * output->stride + (size_t)pass->left * output->channels);
}

static int run_pass(struct work *work, uint32_t number) {
    struct image_pipeline *pipeline = work->pipeline;
    const struct image_pass *pass = &pipeline->plan.passes[number];
    struct image_scratch *buffers = &pipeline->buffers[work->side * BUFFERS_OF_PASS];
    const bool last = number + 1 == pipeline->plan.count;
    struct image part = {0};
    int err = 0;
    if (pass->resize.part.width && pass->resized)
        err = resize_part(work, pass, &buffers[BUFFER_RESIZED], &part);
    else if (pass->resize.part.width)
        err = take(work, pass, pass->resize.part, &part);
    if (err)
        return err;
    work->borrowed &= !pass->resized;
    work->mirror = last && pass->mirrored && !pipeline->colours;
    if (image_pass_is_full(pass) && !pass->flipped && (!pass->mirrored || work->mirror)) {
        work->image = part;
        work->side ^= pass->resized; // a pass that only cuts hands on what it was given
        return 0;
    }
    struct image_pass placed = *pass;
    work->mirror &= image_pass_is_full(pass);
    placed.mirrored &= !work->mirror;
    err = make_image(work, &buffers[BUFFER_PLACED], pass->width, pass->height, &work->image);
    if (!err)
        put(&placed, &part, &work->image);
    work->side ^= 1;
    work->borrowed = false;
    return err;
}

// ---- One image ---------------------------------------------------------------------------------------------

static int read_size(struct work *work) {
    const struct image_pipeline *pipeline = work->pipeline;
    work->width = pipeline->stored.width;
    work->height = pipeline->stored.height;
    work->encoded = pipeline->decoder != NULL;
    if (!work->encoded) {
        const uint32_t channels = pipeline->stored.channels;
        work->image = (struct image){(uint8_t *)(uintptr_t)work->bytes, work->width, work->height, channels,
                                     (size_t)work->width * channels};
        work->borrowed = true;
        return work->count == work->image.stride * work->height
                   ? 0
                   : error_set(work->error, -EBADMSG, "found %zu bytes of pixels, wanted %zu", work->count,
                               work->image.stride * work->height);
    }
    int err = image_read_header(work->bytes, work->count, &work->header, work->error);
    if (err)
        return err;
    if (pipeline->steps->flags & IMAGE_STEPS_EXIF) {
        image_oriented_size(&work->header, &work->width, &work->height);
        return 0;
    }
    work->width = work->header.width;
    work->height = work->header.height;
    return 0;
}

// Steps of colours work in place.
static int change_colours(struct work *work) {
    if (!work->pipeline->colours)
        return 0;
    if (work->borrowed) {
        const struct image from = work->image;
        int err = make_image(work, &work->pipeline->own, from.width, from.height, &work->image);
        if (err)
            return err;
        for (uint32_t y = 0; y < from.height; y++)
            copy_row(&from, y, false, work->image.pixels + y * work->image.stride);
    }
    return image_colour_steps_run(work->pipeline->steps, work->place, &work->image, work->error);
}

static void trim(struct image_pipeline *pipeline) {
    for (size_t i = 0; i < COUNT_OF(pipeline->buffers); i++)
        image_scratch_trim(&pipeline->buffers[i]);
    image_scratch_trim(&pipeline->own);
}

// The passes of the plan.
static int run_plan(struct work *work, const struct image_steps *steps, uint32_t width, uint32_t height) {
    struct image_pipeline *pipeline = work->pipeline;
    int err = image_plan_make(&pipeline->plan, steps, width, height, work->place, work->error);
    for (uint32_t i = 0; !err && i < pipeline->plan.count; i++)
        err = run_pass(work, i);
    return err;
}

static int finish(struct work *work, void *slot) {
    int err = change_colours(work);
    if (err)
        return err;
    struct image_finish finish = work->pipeline->finish;
    finish.mirror = work->mirror;
    image_finish_run(&finish, &work->image, slot);
    return 0;
}

int image_pipeline_run(struct image_pipeline *pipeline, const uint8_t *bytes, size_t count,
                       const struct image_place *place, void *slot, struct error *error) {
    struct work work = {.pipeline = pipeline, .bytes = bytes, .count = count, .place = place, .error = error};
    trim(pipeline);
    int err = read_size(&work);
    if (!err)
        err = run_plan(&work, pipeline->steps, work.width, work.height);
    return err ? err : finish(&work, slot);
}

// From the image that a cache keeps.
static int run_after(struct work *work, void *slot) {
    work->encoded = false;
    int err = run_plan(work, &work->pipeline->after, work->image.width, work->image.height);
    return err ? err : finish(work, slot);
}

int image_pipeline_run_kept(struct image_pipeline *pipeline, const struct image *image,
                            const struct image_place *place, void *slot, struct error *error) {
    struct work work = {
        .pipeline = pipeline, .place = place, .image = *image, .borrowed = true, .error = error};
    trim(pipeline);
    return run_after(&work, slot);
}

int image_pipeline_run_and_keep(struct image_pipeline *pipeline, const uint8_t *bytes, size_t count,
                                const struct image_place *place, void *slot, image_keep *keep, void *context,
                                struct error *error) {
    struct work work = {.pipeline = pipeline, .bytes = bytes, .count = count, .place = place, .error = error};
    trim(pipeline);
    int err = read_size(&work);
    if (!err)
        err = run_plan(&work, &pipeline->before, work.width, work.height);
    if (err)
        return err;
    keep(context, &work.image);
    return run_after(&work, slot);
}

// ---- Opening -----------------------------------------------------------------------------------------------

static bool has_colours(const struct image_steps *steps) {
    for (uint32_t i = 0; i < steps->count; i++)
        if (!image_step_is_geometric(&steps->steps[i]))
            return true;
    return false;
}

int image_pipeline_open(struct image_pipeline **pipeline, const struct image_steps *steps,
                        const struct image_stored *stored, const struct image_finish *finish,
                        struct error *error) {
    struct image_pipeline *made = *pipeline = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, -ENOMEM, "no memory for the steps of an image");
    made->steps = steps;
    made->before = (struct image_steps){.channels = steps->channels,
                                        .flags = steps->flags,
                                        .side = steps->side,
                                        .side_filter = steps->side_filter};
    made->after = *steps;
    made->after.side = 0;
    made->stored = *stored;
    made->finish = *finish;
    made->colours = has_colours(steps);
    int err = image_resizer_open(&made->resizer, error);
    if (!err && stored->encoded)
        err = image_decoder_open(&made->decoder, error);
    if (err) {
        image_pipeline_close(made);
        *pipeline = NULL;
    }
    return err;
}

void image_pipeline_close(struct image_pipeline *pipeline) {
    if (!pipeline)
        return;
    image_decoder_close(pipeline->decoder);
    image_resizer_close(pipeline->resizer);
    for (size_t i = 0; i < COUNT_OF(pipeline->buffers); i++)
        image_scratch_free(&pipeline->buffers[i]);
    image_scratch_free(&pipeline->own);
    free(pipeline);
}
