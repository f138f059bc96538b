#include "daemon/image/steps_fit.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/image/geometry.h"

static bool fixes_size(const struct image_step *step) {
    return step->width && !(step->flags & IMAGE_STEP_SHORTER);
}

// The size after all steps, for an image of that size.
static int find_size(struct image_steps *steps, uint32_t first, uint32_t width, uint32_t height,
                     struct error *error) {
    const struct image_place any = {0};
    struct image_steps rest = {
        .count = steps->count - first, .side = first ? 0 : steps->side, .side_filter = steps->side_filter};
    struct image_plan plan;
    memcpy(rest.steps, &steps->steps[first], rest.count * sizeof rest.steps[0]);
    int err = image_plan_make(&plan, &rest, width, height, &any, error);
    if (err)
        return err;
    steps->width = plan.passes[plan.count - 1].width;
    steps->height = plan.passes[plan.count - 1].height;
    return 0;
}

static int fit_encoded(struct image_steps *steps, struct error *error) {
    uint32_t first = steps->count;
    while (first > 0 && !fixes_size(&steps->steps[first - 1]))
        first--;
    if (first == 0)
        return error_set(
            error, -EINVAL,
            "found no step that fixes both sides, wanted one such as resize 224 224, "
            "center_crop 224 or random_resized_crop 224, because all samples must have one size");
    const struct image_step *last = &steps->steps[first - 1];
    if (!steps->channels && steps->with[0])
        steps->flags |= IMAGE_STEPS_LABELS;
    if (!steps->channels)
        steps->channels = steps->with[0] ? 1 : 3; // masks have one
    return find_size(steps, first, last->width, last->height, error);
}

static int fit_stored(struct image_steps *steps, const struct image_stored *stored, struct error *error) {
    if (steps->flags & IMAGE_STEPS_DECODE)
        return error_set(error, -EINVAL, "found decode, wanted it only for fields of encoded images");
    steps->channels = stored->channels;
    return find_size(steps, 0, stored->width, stored->height, error);
}

static int check_fills(const struct image_steps *steps, struct error *error) {
    for (uint32_t i = 0; i < steps->count; i++)
        if (steps->steps[i].flags & IMAGE_STEP_COLOURS && steps->channels == 1)
            return error_set(
                error, -EINVAL,
                "found three levels after fill in %s, wanted one, because the image has 1 channel",
                image_step_name(steps->steps[i].kind));
    return 0;
}

// What the kernel can do that finishes images on a GPU.
static int check_gpu(const struct image_steps *steps, struct error *error) {
    if (!(steps->flags & IMAGE_STEPS_GPU))
        return 0;
    if (steps->flags & IMAGE_STEPS_FAST)
        return error_set(error, -EINVAL, "found decode fast gpu, wanted one of fast and gpu");
    if (steps->with[0])
        return error_set(error, -EINVAL, "found decode gpu before with, wanted it only for the image");
    for (uint32_t i = 0; i < steps->count; i++) {
        const struct image_step *step = &steps->steps[i];
        const bool resizes = step->kind == IMAGE_RESIZE || step->kind == IMAGE_RANDOM_RESIZED_CROP;
        if (!image_step_is_geometric(step))
            return error_set(error, -EINVAL,
                             "found decode gpu and %s, wanted no steps on colours with decode gpu",
                             image_step_name(step->kind));
        if (resizes && step->filter == IMAGE_NEAREST)
            return error_set(error, -EINVAL,
                             "found decode gpu and nearest, wanted bilinear or bicubic with decode gpu");
    }
    return 0;
}

int image_steps_fit(struct image_steps *steps, const struct image_stored *stored, struct error *error) {
    int err = stored->encoded ? fit_encoded(steps, error) : fit_stored(steps, stored, error);
    if (!err)
        err = check_gpu(steps, error);
    return err ? err : check_fills(steps, error);
}

int image_steps_follow(struct image_steps *steps, const struct image_steps *of, struct error *error) {
    if (of->with[0])
        return error_set(error, -EINVAL, "found with %s, whose own steps begin with %s, wanted with %s",
                         steps->with, of->with, of->with);
    for (uint32_t i = 0; i < of->count; i++) {
        struct image_step step = of->steps[i];
        if (step.kind == IMAGE_RAND_AUGMENT || step.kind == IMAGE_TRIVIAL_AUGMENT_WIDE)
            return error_set(
                error, -EINVAL,
                "found %s among the steps of %s, wanted none that moves pixels at random with others",
                image_step_name(step.kind), steps->with);
        if (!image_step_is_geometric(&step))
            continue;
        step.filter = IMAGE_NEAREST;
        step.flags &= ~IMAGE_STEP_COLOURS;
        for (uint32_t channel = 0; channel < 3 && (step.kind == IMAGE_PAD || step.kind == IMAGE_RANDOM_CROP);
             channel++)
            step.values[IMAGE_VALUE_FILL + channel] = (float)steps->fill;
        steps->steps[steps->count++] = step;
    }
    return 0;
}
