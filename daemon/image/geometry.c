#include "daemon/image/geometry.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/image/parameters.h"

// ---- Passes: an output that steps cut, fill up, mirror and resize ------------------------------------------------

// One that puts out its input.
static void begin_pass(struct image_plan *plan, uint32_t width, uint32_t height) {
    const struct image_rect whole = {0, 0, width, height};
    plan->passes[plan->count++] = (struct image_pass){
        .crop = whole,
        .resize =
            {.source_width = width, .source_height = height, .width = width, .height = height, .part = whole},
        .width = width,
        .height = height,
    };
}

static struct image_pass *last_pass(struct image_plan *plan) {
    return &plan->passes[plan->count - 1];
}

static struct image_pass *next_pass(struct image_plan *plan) {
    const struct image_pass *pass = last_pass(plan);
    begin_pass(plan, pass->width, pass->height);
    return last_pass(plan);
}

bool image_pass_is_full(const struct image_pass *pass) {
    return pass->resize.part.width == pass->width && pass->resize.part.height == pass->height;
}

// One axis of a part and of where it lies, when the output becomes `size` pixels from `begin` of the present one on.
static void cut_axis(int64_t begin, int64_t size, bool mirrored, uint32_t *part, uint32_t *length,
                     uint32_t *place) {
    const int64_t from = *place, to = from + *length;
    const int64_t first = from > begin ? from : begin, last = to < begin + size ? to : begin + size;
    *length = last > first ? (uint32_t)(last - first) : 0;
    if (*length == 0)
        return;
    *part += (uint32_t)(mirrored ? to - last : first - from);
    *place = (uint32_t)(first - begin);
}

// Cuts the output to a rectangle of it.
static void cut(struct image_pass *pass, int64_t x, int64_t y, int64_t width, int64_t height) {
    struct image_rect *part = &pass->resize.part;
    cut_axis(x, width, pass->mirrored, &part->x, &part->width, &pass->left);
    cut_axis(y, height, pass->flipped, &part->y, &part->height, &pass->top);
    if (!part->width || !part->height) {
        *part = (struct image_rect){0};
        pass->left = pass->top = 0;
    }
    pass->width = (uint32_t)width;
    pass->height = (uint32_t)height;
}

static int check_size(int64_t width, int64_t height, const char *step, struct error *error) {
    if (width <= IMAGE_MAX_SIDE && height <= IMAGE_MAX_SIDE)
        return 0;
    return error_set(error, -EINVAL,
                     "found %" PRId64 " x %" PRId64 " pixels after %s, wanted at most %u per side", width,
                     height, step, IMAGE_MAX_SIDE);
}

// Adds margins to the output, in the order of struct image_step: left, top, right, bottom.
static int pad(struct image_plan *plan, const int64_t *margins, const float *fill, const char *step,
               struct error *error) {
    struct image_pass *pass = last_pass(plan);
    const uint8_t levels[3] = {(uint8_t)fill[0], (uint8_t)fill[1], (uint8_t)fill[2]};
    const int64_t width = pass->width + margins[0] + margins[2],
                  height = pass->height + margins[1] + margins[3];
    int err = check_size(width, height, step, error);
    if (err || (width == pass->width && height == pass->height))
        return err;
    if (!image_pass_is_full(pass) && memcmp(pass->fill, levels, sizeof levels) != 0)
        pass = next_pass(plan);
    memcpy(pass->fill, levels, sizeof levels);
    cut(pass, -margins[0], -margins[1], width, height);
    return 0;
}

static void mirror(struct image_pass *pass) {
    pass->mirrored = !pass->mirrored;
    pass->left = pass->width - pass->left - pass->resize.part.width;
}

static void flip(struct image_pass *pass) {
    pass->flipped = !pass->flipped;
    pass->top = pass->height - pass->top - pass->resize.part.height;
}

// What is copied becomes what is cut out.
static void crop_to_part(struct image_pass *pass) {
    struct image_rect *part = &pass->resize.part;
    pass->crop =
        (struct image_rect){pass->crop.x + part->x, pass->crop.y + part->y, part->width, part->height};
    pass->resize.source_width = pass->resize.width = part->width;
    pass->resize.source_height = pass->resize.height = part->height;
    part->x = part->y = 0;
}

// Pillow's and torchvision's resize both return an image that has the size already.
static void resize(struct image_plan *plan, uint32_t width, uint32_t height, uint32_t filter) {
    struct image_pass *pass = last_pass(plan);
    if (width == pass->width && height == pass->height)
        return;
    if (pass->resized || pass->mirrored || pass->flipped || !image_pass_is_full(pass))
        pass = next_pass(plan);
    crop_to_part(pass);
    pass->resized = true;
    pass->resize.filter = filter;
    pass->resize.width = pass->width = width;
    pass->resize.height = pass->height = height;
    pass->resize.part = (struct image_rect){0, 0, width, height};
}

// ---- Steps -----------------------------------------------------------------------------------------------------

// The shorter side becomes that of the step; the longer one is rounded down.
static int resize_step(struct image_plan *plan, const struct image_step *step, struct error *error) {
    const struct image_pass *pass = last_pass(plan);
    uint64_t width = step->width, height = step->height;
    if (step->flags & IMAGE_STEP_SHORTER && pass->width <= pass->height)
        height = width * pass->height / pass->width;
    else if (step->flags & IMAGE_STEP_SHORTER)
        width = height * pass->width / pass->height;
    int err = check_size((int64_t)width, (int64_t)height, "resize", error);
    if (!err)
        resize(plan, (uint32_t)width, (uint32_t)height, step->filter);
    return err;
}

// The size in which a cache keeps images.
static int resize_to_side(struct image_plan *plan, const struct image_steps *steps, struct error *error) {
    const struct image_step step = {.kind = IMAGE_RESIZE,
                                    .filter = steps->side_filter,
                                    .width = steps->side,
                                    .height = steps->side,
                                    .flags = IMAGE_STEP_SHORTER};
    int err = resize_step(plan, &step, error);
    const struct image_pass *pass = last_pass(plan);
    if (!err && (uint64_t)pass->width * pass->height > IMAGE_MAX_PIXELS)
        return error_set(error, -EINVAL,
                         "found %" PRIu32 " x %" PRIu32 " pixels for the cache, wanted at most %u",
                         pass->width, pass->height, IMAGE_MAX_PIXELS);
    return err;
}

// Half of what is too much, ties to even.
static int64_t center(int64_t size, int64_t wanted) {
    const int64_t half = (size - wanted) / 2;
    return (size - wanted) % 2 == 0 ? half : half + half % 2;
}

// A side that is too short gets black margins first, the odd pixel to the right or the bottom.
static int center_crop(struct image_plan *plan, const struct image_step *step, struct error *error) {
    static const float black[3] = {0};
    struct image_pass *pass = last_pass(plan);
    const int64_t wide = (int64_t)step->width - pass->width, high = (int64_t)step->height - pass->height;
    const int64_t margins[4] = {wide > 0 ? wide / 2 : 0, high > 0 ? high / 2 : 0,
                                wide > 0 ? (wide + 1) / 2 : 0, high > 0 ? (high + 1) / 2 : 0};
    int err = pad(plan, margins, black, "center_crop", error);
    if (err)
        return err;
    pass = last_pass(plan);
    cut(pass, center(pass->width, step->width), center(pass->height, step->height), step->width,
        step->height);
    return 0;
}

static int pad_step(struct image_plan *plan, const struct image_step *step, struct error *error) {
    const float *values = &step->values[IMAGE_VALUE_PADDING];
    int64_t margins[4];
    for (int i = 0; i < 4; i++)
        margins[i] = (int64_t)values[i];
    return pad(plan, margins, &step->values[IMAGE_VALUE_FILL], image_step_name(step->kind), error);
}

static int random_crop(struct image_plan *plan, const struct image_step *step, struct image_random *random,
                       struct error *error) {
    int err = pad_step(plan, step, error);
    if (err)
        return err;
    struct image_pass *pass = last_pass(plan);
    if (pass->width < step->width || pass->height < step->height)
        return error_set(error, -EINVAL,
                         "found %" PRIu32 " x %" PRIu32 " pixels before random_crop, wanted at least %" PRIu32
                         " x %" PRIu32,
                         pass->width, pass->height, step->width, step->height);
    const uint32_t y = image_random_below(random, pass->height - step->height + 1);
    const uint32_t x = image_random_below(random, pass->width - step->width + 1);
    cut(pass, x, y, step->width, step->height);
    return 0;
}

static void random_resized_crop(struct image_plan *plan, const struct image_step *step,
                                struct image_random *random) {
    struct image_pass *pass = last_pass(plan);
    struct image_rect rect;
    image_random_crop(step, random, pass->width, pass->height, &rect);
    cut(pass, rect.x, rect.y, rect.width, rect.height);
    resize(plan, step->width, step->height, step->filter);
}

static int take_step(struct image_plan *plan, const struct image_step *step, const struct image_place *place,
                     struct error *error) {
    struct image_random random;
    image_random_begin(&random, place, step->number);
    switch (step->kind) {
    case IMAGE_RESIZE:
        return resize_step(plan, step, error);
    case IMAGE_CENTER_CROP:
        return center_crop(plan, step, error);
    case IMAGE_RANDOM_CROP:
        return random_crop(plan, step, &random, error);
    case IMAGE_RANDOM_RESIZED_CROP:
        random_resized_crop(plan, step, &random);
        return 0;
    case IMAGE_FLIP:
        if (image_random_happens(step, &random))
            mirror(last_pass(plan));
        return 0;
    case IMAGE_VERTICAL_FLIP:
        if (image_random_happens(step, &random))
            flip(last_pass(plan));
        return 0;
    case IMAGE_PAD:
        return pad_step(plan, step, error);
    default:
        return 0;
    }
}

// ---- Plans -----------------------------------------------------------------------------------------------------

// The crop's pixels on which the part depends: at least one, so that every pass has an input.
static struct image_rect needed_of(const struct image_pass *pass) {
    struct image_rect needed = {0, 0, 1, 1};
    if (pass->resize.part.width && pass->resized)
        image_resize_needs(&pass->resize, &needed);
    else if (pass->resize.part.width)
        needed = pass->resize.part;
    return needed;
}

// From the last pass to the first: each puts out only what the next one needs.
static int shrink(struct image_plan *plan, struct error *error) {
    for (uint32_t i = plan->count; i-- > 0;) {
        struct image_pass *pass = &plan->passes[i];
        struct image_resize *resize = &pass->resize;
        if ((uint64_t)pass->width * pass->height > IMAGE_MAX_PIXELS)
            return error_set(error, -EINVAL,
                             "found %" PRIu32 " x %" PRIu32 " pixels after a step, wanted at most %u",
                             pass->width, pass->height, IMAGE_MAX_PIXELS);
        if (!pass->resized && resize->part.width)
            crop_to_part(pass);
        resize->box = (struct image_box){0, 0, resize->source_width, resize->source_height};
        if (i == 0)
            break;
        const struct image_rect needed = needed_of(pass);
        pass->from_x = pass->crop.x + needed.x;
        pass->from_y = pass->crop.y + needed.y;
        cut(&plan->passes[i - 1], pass->from_x, pass->from_y, needed.width, needed.height);
    }
    return 0;
}

int image_plan_make(struct image_plan *plan, const struct image_steps *steps, uint32_t width, uint32_t height,
                    const struct image_place *place, struct error *error) {
    if (!width || !height || width > IMAGE_MAX_SIDE || height > IMAGE_MAX_SIDE)
        return error_set(error, -EINVAL,
                         "found an image of %" PRIu32 " x %" PRIu32 " pixels, wanted sides of 1 to %u", width,
                         height, IMAGE_MAX_SIDE);
    int err = 0;
    plan->count = 0;
    begin_pass(plan, width, height);
    if (steps->side)
        err = resize_to_side(plan, steps, error);
    for (uint32_t i = 0; !err && i < steps->count; i++)
        err = take_step(plan, &steps->steps[i], place, error);
    return err ? err : shrink(plan, error);
}
