// Plans of geometric steps: whatever the steps, the size and the random numbers, the passes of a plan make the pixels
// that the steps make one after the other.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/image/steps_fit.h"
#include "tests/unit/image_slowly.h"

static uint64_t random_state = 3;

static uint32_t random_below(uint32_t count) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % count;
}

// ---- The plan -------------------------------------------------------------------------------------------

// The crop of a pass's input, and of that only what is needed: all else is poisoned.
static struct image take_crop(const struct image_pass *pass, const struct image *input,
                              struct image_rect *needed) {
    const struct image_resize *resize = &pass->resize;
    struct image crop = new_image(pass->crop.width, pass->crop.height);
    *needed = resize->part;
    if (pass->resized && resize->part.width)
        image_resize_needs(resize, needed);
    for (uint32_t y = needed->y; y < needed->y + needed->height; y++)
        for (uint32_t x = needed->x; x < needed->x + needed->width; x++)
            memcpy(pixel(&crop, x, y),
                   pixel(input, pass->crop.x + x - pass->from_x, pass->crop.y + y - pass->from_y), CHANNELS);
    return crop;
}

static struct image take_part(const struct image_pass *pass, const struct image *input) {
    const struct image_rect *part = &pass->resize.part;
    struct image_rect needed;
    if (!part->width)
        return (struct image){0};
    struct image crop = take_crop(pass, input, &needed), made = new_image(part->width, part->height);
    const struct image from = {pixel(&crop, needed.x, needed.y), needed.width, needed.height, CHANNELS,
                               crop.stride};
    for (uint32_t y = 0; y < part->height && !pass->resized; y++)
        memcpy(pixel(&made, 0, y), pixel(&crop, part->x, part->y + y), made.stride);
    if (pass->resized)
        resize_into(&pass->resize, &from, needed, &made);
    free(crop.pixels);
    return made;
}

static struct image run_pass(const struct image_pass *pass, const struct image *input) {
    struct image to = new_image(pass->width, pass->height), part = take_part(pass, input);
    for (uint32_t y = 0; y < to.height; y++)
        for (uint32_t x = 0; x < to.width; x++)
            memcpy(pixel(&to, x, y), pass->fill, CHANNELS);
    for (uint32_t y = 0; y < part.height; y++)
        for (uint32_t x = 0; x < part.width; x++)
            memcpy(pixel(&to, pass->left + x, pass->top + y),
                   pixel(&part, pass->mirrored ? part.width - 1 - x : x,
                         pass->flipped ? part.height - 1 - y : y),
                   CHANNELS);
    assert_int_equal(image_pass_is_full(pass), part.width == to.width && part.height == to.height);
    free(part.pixels);
    return to;
}

static struct image run_plan(const struct image_plan *plan, const struct image *image) {
    struct image now = slow_mirror(image, false, false);
    assert_true(plan->count >= 1 && plan->passes[0].from_x == 0 && plan->passes[0].from_y == 0);
    for (uint32_t i = 0; i < plan->count; i++) {
        struct image next = run_pass(&plan->passes[i], &now);
        free(now.pixels);
        now = next;
    }
    return now;
}

// ---- Both -----------------------------------------------------------------------------------------------

static struct image_steps parse(const char *text) {
    struct image_steps steps;
    struct error error = {0};
    const char *rest;
    if (image_steps_parse(text, &steps, &rest, &error))
        fail_msg("%s: %s", text, error.text);
    assert_string_equal(rest, "");
    return steps;
}

static struct image random_image(uint32_t width, uint32_t height) {
    struct image image = new_image(width, height);
    for (size_t i = 0; i < image.stride * height; i++)
        image.pixels[i] = (uint8_t)random_below(256);
    return image;
}

// Whether the steps take such an image. `passes`: how many it is to take; 0: any number.
static bool compare(const char *text, uint32_t width, uint32_t height, uint64_t position, uint32_t passes) {
    const struct image_steps steps = parse(text);
    const struct image_place place = {11, 2, position};
    struct image_plan plan;
    struct error error = {0};
    struct image image = random_image(width, height), wanted = run_slowly(&steps, &image, &place);
    int err = image_plan_make(&plan, &steps, width, height, &place, &error);
    if (!wanted.pixels) {
        assert_int_equal(err, -EINVAL);
        assert_non_null(strstr(error.text, "before random_crop, wanted at least"));
        free(image.pixels);
        return false;
    }
    if (err)
        fail_msg("%s of %u x %u: %s", text, width, height, error.text);
    struct image got = run_plan(&plan, &image);
    if (got.width != wanted.width || got.height != wanted.height ||
        memcmp(got.pixels, wanted.pixels, got.stride * got.height) != 0)
        fail_msg("%s of %u x %u at %lu: other pixels", text, width, height, (unsigned long)position);
    if (passes && plan.count != passes)
        fail_msg("%s of %u x %u: %u passes, wanted %u", text, width, height, plan.count, passes);
    free(image.pixels);
    free(wanted.pixels);
    free(got.pixels);
    return true;
}

static void usual_chains_are_one_pass(void **state) {
    (void)state;
    static const char *const texts[] = {
        "random_resized_crop 9, flip",
        "random_resized_crop 9 12 area 0.5 1 ratio 1 2 bicubic, flip, vertical_flip",
        "resize 12, center_crop 9",
        "resize 12 13 nearest, center_crop 9, flip 1",
        "resize 12, random_crop 9, flip",
        "center_crop 7, resize 12 11",
        "pad 4, random_crop 9, flip",
        "random_crop 9 padding 4 fill 7, flip",
        "flip, pad 4 fill 1 2 3, random_crop 9, vertical_flip, center_crop 5",
        "resize 9 9, pad 1 2 3 4, pad 2, flip 1, center_crop 30",
        "center_crop 30, center_crop 3, flip",
        "flip",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        for (uint64_t position = 0; position < 60; position++)
            compare(texts[i], 9 + random_below(20), 9 + random_below(20), position, 1);
}

static void chains_that_need_several_passes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t passes;
    } chains[] = {
        {"resize 12 13, resize 9 8", 2},
        {"flip 1, resize 9 8", 2},
        {"vertical_flip 1, resize 9 8 nearest", 2},
        {"pad 1, resize 9 8", 2},
        {"pad 1 fill 5, pad 1 fill 6", 2},
        {"pad 1 fill 5, center_crop 80", 2},
        {"resize 50 51, resize 9 9, flip 1, resize 4 5, pad 2", 3},
        {"pad 1 fill 5, center_crop 2, flip 1, flip 1, resize 9 8", 1},
        {"resize 30 31, center_crop 8, resize 8 8, flip", 1},
    };
    for (size_t i = 0; i < COUNT_OF(chains); i++)
        for (uint64_t position = 0; position < 40; position++)
            compare(chains[i].text, 14 + random_below(20), 14 + random_below(20), position, chains[i].passes);
}

static void add_step(char *text, size_t size) {
    static const char *const steps[] = {"flip",
                                        "vertical_flip",
                                        "flip 1",
                                        "resize 7",
                                        "resize 9 4 bicubic",
                                        "resize 5 nearest",
                                        "resize 11 13",
                                        "center_crop 6",
                                        "center_crop 3 12",
                                        "center_crop 20",
                                        "random_crop 4 3",
                                        "random_crop 5 padding 2 fill 9",
                                        "random_crop 1 padding 9",
                                        "random_resized_crop 6 7",
                                        "random_resized_crop 12 area 0.01 1 ratio 0.2 5 nearest",
                                        "pad 1",
                                        "pad 0 3 1 0 fill 1 2 3",
                                        "pad 2 fill 1 2 3"};
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? ", " : "", steps[random_below(COUNT_OF(steps))]);
}

static void random_chains(void **state) {
    (void)state;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < 6000; i++) {
        char text[1024] = "";
        for (uint32_t count = 1 + random_below(i % 50 ? 5 : IMAGE_MAX_STEPS); count > 0; count--)
            add_step(text, sizeof text);
        taken += compare(text, 1 + random_below(24), 1 + random_below(24), i, 0);
    }
    assert_true(taken > 3000);
}

// ---- Sizes ----------------------------------------------------------------------------------------------

static int plan_of(const char *text, uint32_t width, uint32_t height, struct image_plan *plan,
                   struct error *error) {
    const struct image_steps steps = parse(text);
    const struct image_place place = {1, 2, 3};
    return image_plan_make(plan, &steps, width, height, &place, error);
}

static void check_refused(const char *text, uint32_t width, uint32_t height, const char *sentence) {
    struct image_plan plan;
    struct error error = {0};
    assert_int_equal(plan_of(text, width, height, &plan, &error), -EINVAL);
    if (!strstr(error.text, sentence))
        fail_msg("%s is not in: %s", sentence, error.text);
}

static void check_size(const char *text, uint32_t width, uint32_t height, uint32_t wanted_width,
                       uint32_t wanted_height) {
    struct image_plan plan;
    struct error error = {0};
    if (plan_of(text, width, height, &plan, &error))
        fail_msg("%s: %s", text, error.text);
    for (uint32_t i = 0; i < plan.count; i++) {
        const struct image_pass *pass = &plan.passes[i];
        assert_true((uint64_t)pass->left + pass->resize.part.width <= pass->width);
        assert_true((uint64_t)pass->top + pass->resize.part.height <= pass->height);
        assert_true(i || (uint64_t)pass->crop.x + pass->crop.width <= width);
        assert_true(i || (uint64_t)pass->crop.y + pass->crop.height <= height);
        if (pass->resize.part.width)
            assert_int_equal(image_resize_check(&pass->resize, &error), 0);
    }
    assert_int_equal(plan.passes[plan.count - 1].width, wanted_width);
    assert_int_equal(plan.passes[plan.count - 1].height, wanted_height);
}

static void extreme_sizes(void **state) {
    (void)state;
    check_size("resize 224, center_crop 224", 1, 1, 224, 224);
    check_size("resize 10, center_crop 224", 1, 5000, 224, 224);
    check_size("random_resized_crop 224, flip", 1, 5000, 224, 224);
    check_size("random_resized_crop 224", 65500, 3, 224, 224);
    check_size("random_resized_crop 65535 1, resize 3 3", 65535, 65535, 3, 3);
    check_size("resize 65535 65535, random_crop 7, resize 3 4", 5, 5, 4, 3);
    check_size("resize 256", 256, 500, 256, 500);
    check_size("resize 256", 500, 375, 341, 256);
    check_size("resize 256", 375, 500, 256, 341);
    check_refused("resize 256", 1, 5000,
                  "found 256 x 1280000 pixels after resize, wanted at most 65535 per side");
    check_refused("resize 256", 65500, 3, "pixels after resize, wanted at most 65535 per side");
    check_refused("pad 40000", 1, 1, "found 80001 x 80001 pixels after pad");
    check_refused("resize 65535 65535, flip 1, resize 3 3", 5, 5, "found 65535 x 65535 pixels after a step");
    check_refused("random_crop 33", 32, 40,
                  "found 32 x 40 pixels before random_crop, wanted at least 33 x 33");
    check_refused("flip", 0, 1, "found an image of 0 x 1 pixels");
    check_refused("flip", 1, 65536, "wanted sides of 1 to 65535");
}

// Places of an image and its mask are the same.
static void masks_follow(void **state) {
    (void)state;
    struct image_steps image =
        parse("resize 40, random_crop 32 padding 4 fill 1 2 3, brightness 0.4, erase 1, grayscale 1");
    struct image_steps mask = parse("decode gray, with image fill 255");
    struct image_plan plans[2];
    struct error error = {0};
    assert_string_equal(mask.with, "image");
    assert_int_equal(image_steps_follow(&mask, &image, &error), 0);
    assert_int_equal(mask.count, 2);
    assert_int_equal(image_steps_fit(&mask, &(struct image_stored){.encoded = true}, &error), 0);
    assert_int_equal(image_steps_fit(&image, &(struct image_stored){.encoded = true}, &error), 0);
    assert_true(mask.channels == 1 && image.channels == 3 && mask.width == 32 && mask.height == 32);
    for (uint64_t position = 0; position < 50; position++) {
        const struct image_place place = {1, 2, position};
        assert_int_equal(image_plan_make(&plans[0], &image, 50, 70, &place, &error), 0);
        assert_int_equal(image_plan_make(&plans[1], &mask, 50, 70, &place, &error), 0);
        assert_int_equal(plans[1].passes[0].resize.filter, IMAGE_NEAREST);
        assert_true(image_pass_is_full(&plans[1].passes[0]) || plans[1].passes[0].fill[0] == 255);
        plans[1].passes[0].resize.filter = plans[0].passes[0].resize.filter;
        memcpy(plans[1].passes[0].fill, plans[0].passes[0].fill, 3);
        assert_memory_equal(&plans[0].passes[0], &plans[1].passes[0], sizeof plans[0].passes[0]);
    }
    image = parse("random_resized_crop 8, rand_augment");
    mask = parse("with image");
    assert_int_equal(image_steps_follow(&mask, &image, &error), -EINVAL);
}

static int open_resizer(void **state) {
    (void)state;
    return image_resizer_open(&resizer, NULL);
}

static int close_resizer(void **state) {
    (void)state;
    image_resizer_close(resizer);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usual_chains_are_one_pass),
        cmocka_unit_test(chains_that_need_several_passes),
        cmocka_unit_test(random_chains),
        cmocka_unit_test(extreme_sizes),
        cmocka_unit_test(masks_follow),
    };
    return cmocka_run_group_tests_name("image geometry", tests, open_resizer, close_resizer);
}
