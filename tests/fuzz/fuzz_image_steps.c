// The steps on images of a transform, and plans for images of any size: every pass takes pixels that there are, and
// puts them where there is room.
//
// Input: the steps in a line, those of a field whose geometry they may take in another, sizes, and a place.
#include "base/sizes.h"
#include "daemon/image/geometry.h"
#include "daemon/image/steps_fit.h"
#include "tests/fuzz/fuzz.h"

#define TEXT 600

static void check_steps(const char *text, const struct image_steps *steps, const char *rest) {
    FUZZ_CHECK(rest >= text && rest <= text + strlen(text));
    FUZZ_CHECK(steps->count <= IMAGE_MAX_STEPS && steps->fill <= 255);
    FUZZ_CHECK(!steps->with[0] || (name_is_valid(steps->with) && !steps->count));
    for (uint32_t i = 0; i < steps->count; i++) {
        const struct image_step *step = &steps->steps[i];
        FUZZ_CHECK(step->width <= IMAGE_MAX_SIDE && step->height <= IMAGE_MAX_SIDE);
        FUZZ_CHECK(image_step_is_geometric(step) == (step->number < IMAGE_STEP_FIRST_COLOUR));
        for (uint32_t k = 0; k < 3; k++)
            FUZZ_CHECK(step->values[IMAGE_VALUE_FILL + k] >= 0 && step->values[IMAGE_VALUE_FILL + k] <= 255);
    }
}

static void check_within(struct image_rect rect, uint32_t width, uint32_t height) {
    FUZZ_CHECK(rect.width && rect.height);
    FUZZ_CHECK((uint64_t)rect.x + rect.width <= width && (uint64_t)rect.y + rect.height <= height);
}

// `width` and `height`: of what the pass before puts out.
static void check_pass(const struct image_pass *pass, uint32_t width, uint32_t height) {
    const struct image_rect *part = &pass->resize.part;
    struct error error = {0};
    FUZZ_CHECK((uint64_t)pass->width * pass->height <= IMAGE_MAX_PIXELS);
    if (!part->width)
        return;
    struct image_rect needed = *part;
    FUZZ_CHECK(image_resize_check(&pass->resize, &error) == 0);
    check_within((struct image_rect){pass->left, pass->top, part->width, part->height}, pass->width,
                 pass->height);
    if (pass->resized)
        image_resize_needs(&pass->resize, &needed);
    check_within(needed, pass->crop.width, pass->crop.height);
    needed.x += pass->crop.x - pass->from_x;
    needed.y += pass->crop.y - pass->from_y;
    check_within(needed, width, height);
}

static void check_plan(struct fuzz_input *input, const struct image_steps *steps) {
    const struct image_place place = {fuzz_number(input), fuzz_number(input), fuzz_number(input)};
    uint32_t width = (uint32_t)fuzz_number(input) % 65600, height = (uint32_t)fuzz_number(input) % 65600;
    struct image_plan plan;
    struct error error = {0};
    if (image_plan_make(&plan, steps, width, height, &place, &error) < 0) {
        FUZZ_CHECK(*error.text);
        return;
    }
    FUZZ_CHECK(plan.count >= 1 && plan.count <= IMAGE_MAX_STEPS + 1);
    for (uint32_t i = 0; i < plan.count; i++) {
        check_pass(&plan.passes[i], width, height);
        width = plan.passes[i].width;
        height = plan.passes[i].height;
    }
    FUZZ_CHECK(width == steps->width && height == steps->height);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct image_steps steps, of;
    struct error error = {0};
    const char *rest;
    char texts[2][TEXT];
    fuzz_line(&input, texts[0], TEXT);
    fuzz_line(&input, texts[1], TEXT);
    if (image_steps_parse(texts[0], &steps, &rest, &error) < 0) {
        FUZZ_CHECK(*error.text);
        return 0;
    }
    check_steps(texts[0], &steps, rest);
    if (steps.with[0] &&
        (image_steps_parse(texts[1], &of, &rest, &error) < 0 || image_steps_follow(&steps, &of, &error) < 0))
        return 0;
    const uint8_t kind = fuzz_byte(&input);
    struct image_stored stored = {.encoded = kind % 2, .channels = kind % 4 < 2 ? 1 : 3};
    stored.width = stored.encoded ? 0 : 1 + (uint32_t)fuzz_number(&input) % IMAGE_MAX_SIDE;
    stored.height = stored.encoded ? 0 : 1 + (uint32_t)fuzz_number(&input) % IMAGE_MAX_SIDE;
    if (image_steps_fit(&steps, &stored, &error) < 0) {
        FUZZ_CHECK(*error.text);
        return 0;
    }
    if (kind & 8) // as with a cache
        steps.side = 1 + (uint32_t)fuzz_number(&input) % IMAGE_MAX_SIDE;
    FUZZ_CHECK(steps.width && steps.height && (steps.channels == 1 || steps.channels == 3));
    if (stored.encoded)
        check_plan(&input, &steps);
    return 0;
}
