#include "daemon/image/parameters.h"

#include <math.h>

#include "daemon/image/exact_math.h"

#define TRIES 10

// Two sides, the longer one for a ratio above 1 first.
struct sides {
    double over, under;
};

static double between(double lowest, double highest, struct image_random *random) {
    return lowest + (highest - lowest) * image_random_uniform(random);
}

bool image_random_happens(const struct image_step *step, struct image_random *random) {
    return image_random_uniform(random) < (double)step->values[IMAGE_VALUE_CHANCE];
}

double image_random_factor(const struct image_step *step, struct image_random *random) {
    return between((double)step->values[IMAGE_VALUE_LOWEST], (double)step->values[IMAGE_VALUE_HIGHEST],
                   random);
}

// sqrt and rint have only one right result, which every machine yields.
static struct sides draw_sides(const struct image_step *step, struct image_random *random, uint32_t width,
                               uint32_t height) {
    const float *area = &step->values[IMAGE_VALUE_AREA], *ratio = &step->values[IMAGE_VALUE_RATIO];
    const double a = (double)width * height * between((double)area[0], (double)area[1], random);
    const double r = exact_exp(between(exact_log((double)ratio[0]), exact_log((double)ratio[1]), random));
    return (struct sides){rint(sqrt(a * r)), rint(sqrt(a / r))};
}

static struct image_rect place_randomly(struct image_random *random, uint32_t width, uint32_t height,
                                        double w, double h) {
    struct image_rect rect = {.width = (uint32_t)w, .height = (uint32_t)h};
    rect.y = image_random_below(random, height - rect.height + 1);
    rect.x = image_random_below(random, width - rect.width + 1);
    return rect;
}

static uint32_t at_least_one(double side) {
    return side < 1 ? 1 : (uint32_t)side;
}

static struct image_rect central_crop(const struct image_step *step, uint32_t width, uint32_t height) {
    const double least = (double)step->values[IMAGE_VALUE_RATIO];
    const double most = (double)step->values[IMAGE_VALUE_RATIO + 1];
    const double ratio = (double)width / height;
    struct image_rect crop = {.width = width, .height = height};
    if (ratio < least)
        crop.height = at_least_one(rint(width / least));
    else if (ratio > most)
        crop.width = at_least_one(rint(height * most));
    crop.y = (height - crop.height) / 2;
    crop.x = (width - crop.width) / 2;
    return crop;
}

void image_random_crop(const struct image_step *step, struct image_random *random, uint32_t width,
                       uint32_t height, struct image_rect *crop) {
    for (int i = 0; i < TRIES; i++) {
        const struct sides sides = draw_sides(step, random, width, height);
        if (sides.over < 1 || sides.over > width || sides.under < 1 || sides.under > height)
            continue;
        *crop = place_randomly(random, width, height, sides.over, sides.under);
        return;
    }
    *crop = central_crop(step, width, height);
}

void image_random_erasure(const struct image_step *step, struct image_random *random, uint32_t width,
                          uint32_t height, struct image_rect *erased) {
    *erased = (struct image_rect){0};
    for (int i = 0; i < TRIES; i++) {
        const struct sides sides = draw_sides(step, random, width, height);
        if (sides.over >= height || sides.under >= width)
            continue;
        *erased = place_randomly(random, width, height, sides.under, sides.over);
        return;
    }
}
