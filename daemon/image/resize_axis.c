#include "daemon/image/resize_axis.h"

#include <math.h>
#include <string.h>

#include "base/sizes.h"

// The filter of one axis, at the size that the reduction needs.
struct window {
    double begin, scale;
    double inverse; // of the factor by which the filter is widened
    double support;
};

static struct window window_of(const struct resize_axis_key *key) {
    struct window window;
    double radius = key->filter == IMAGE_BICUBIC ? 2.0 : 1.0;
    // The difference of the box's sides is rounded to float32, like the sides.
    float extent = key->end - key->begin;
    window.begin = (double)key->begin;
    window.scale = (double)extent / key->results;
    double widened = window.scale < 1.0 ? 1.0 : window.scale;
    window.inverse = 1.0 / widened;
    window.support = radius * widened;
    return window;
}

static double center_of(const struct window *window, uint32_t result) {
    return window->begin + (result + 0.5) * window->scale;
}

// Where the pixels of a result begin and end, which is at least one pixel later.
static void span_of(const struct window *window, uint32_t source, uint32_t result, uint32_t *begin,
                    uint32_t *end) {
    double center = center_of(window, result);
    double low = center - window->support + 0.5, high = center + window->support + 0.5;
    *begin = low > 0 ? (uint32_t)low : 0;
    *end = high < source ? (uint32_t)high : source;
}

static double bilinear(double x) {
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

// The order of operations decides about the last bit.
static double bicubic(double x) {
    const double a = -0.5;
    x = fabs(x);
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    if (x < 2.0)
        return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
    return 0.0;
}

// Rounds half away from zero.
static int32_t fixed_point(double weight) {
    double scaled = weight * (1 << RESIZE_PRECISION);
    return (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

static void weigh(const struct window *window, uint32_t filter, uint32_t result, uint32_t begin,
                  uint32_t count, double *scratch, int32_t *weights) {
    double center = center_of(window, result), sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        double x = ((double)i + begin - center + 0.5) * window->inverse;
        scratch[i] = filter == IMAGE_BICUBIC ? bicubic(x) : bilinear(x);
    }
    for (uint32_t i = 0; i < count; i++)
        sum += scratch[i];
    for (uint32_t i = 0; i < count; i++)
        weights[i] = fixed_point(sum != 0 ? scratch[i] / sum : scratch[i]);
}

bool resize_axis_copies(const struct resize_axis_key *key) {
    // At a scale of 1 and whole pixels, the weights are 1 at the center and 0 at all other pixels.
    return key->filter != IMAGE_NEAREST && key->begin == truncf(key->begin) &&
           key->end - key->begin == (float)key->results;
}

static bool reserve(struct resize_axis *axis, size_t results, size_t words) {
    if (results > axis->result_room) {
        free(axis->begins);
        free(axis->used);
        axis->begins = malloc(results * sizeof *axis->begins);
        axis->used = malloc(results * sizeof *axis->used);
        axis->result_room = axis->begins && axis->used ? results : 0;
    }
    if (words > axis->room) {
        free(axis->weights);
        free(axis->packed);
        // The packed words are read as vectors.
        size_t bytes = align_up(words * sizeof *axis->packed, CACHE_LINE);
        axis->weights = malloc(bytes);
        axis->packed = aligned_alloc(CACHE_LINE, bytes);
        axis->room = axis->weights && axis->packed ? words : 0;
    }
    return results <= axis->result_room && words <= axis->room;
}

static uint32_t widest(const struct resize_axis_key *key, const struct window *window) {
    uint32_t most = 1, begin, end;
    for (uint32_t i = 0; i < key->part_count; i++) {
        span_of(window, key->source, key->part_first + i, &begin, &end);
        if (end - begin > most)
            most = end - begin;
    }
    return most;
}

int resize_axis_make(struct resize_axis *axis, const struct resize_axis_key *key) {
    struct window window = window_of(key);
    uint32_t most = widest(key, &window), end;
    uint32_t taps = (uint32_t)align_up(most, RESIZE_QUAD);
    size_t results = align_up(key->part_count, RESIZE_TILE);
    memset(&axis->key, 0, sizeof axis->key); // no axis if this fails
    AUTO_FREE double *scratch = malloc(most * sizeof *scratch);
    if (!scratch || !reserve(axis, results, results * taps))
        return -ENOMEM;
    memset(axis->weights, 0, results * taps * sizeof *axis->weights);
    resize_axis_needs(key, &axis->first, &axis->count);
    for (uint32_t i = 0; i < key->part_count; i++) {
        uint32_t result = key->part_first + i;
        span_of(&window, key->source, result, &axis->begins[i], &end);
        axis->used[i] = end - axis->begins[i];
        weigh(&window, key->filter, result, axis->begins[i], axis->used[i], scratch,
              axis->weights + (size_t)i * taps);
        axis->begins[i] -= axis->first;
    }
    for (size_t i = key->part_count; i < results; i++) {
        axis->begins[i] = axis->begins[key->part_count - 1];
        axis->used[i] = 1;
    }
    axis->taps = taps;
    axis->key = *key;
    return 0;
}

void resize_axis_free(struct resize_axis *axis) {
    free(axis->begins);
    free(axis->used);
    free(axis->weights);
    free(axis->packed);
    memset(axis, 0, sizeof *axis);
}

// Where nearest looks: at the middles of results. They are added up one by one, since a product is rounded differently.
struct steps {
    double place, scale;
};

static struct steps steps_of(const struct resize_axis_key *key) {
    float extent = key->end - key->begin;
    double scale = (double)extent / key->results;
    struct steps steps = {(double)key->begin + scale * 0.5, scale};
    for (uint32_t i = 0; i < key->part_first; i++)
        steps.place += scale;
    return steps;
}

static uint32_t pixel_at(const struct steps *steps, uint32_t source) {
    return steps->place < source ? (uint32_t)steps->place : source;
}

void resize_axis_nearest(const struct resize_axis_key *key, uint32_t *places) {
    struct steps steps = steps_of(key);
    for (uint32_t i = 0; i < key->part_count; i++) {
        places[i] = pixel_at(&steps, key->source);
        steps.place += steps.scale;
    }
}

static void nearest_needs(const struct resize_axis_key *key, uint32_t *first, uint32_t *count) {
    struct steps steps = steps_of(key);
    uint32_t most = key->source - 1, begin = pixel_at(&steps, most);
    for (uint32_t i = 1; i < key->part_count; i++)
        steps.place += steps.scale;
    *first = begin;
    *count = pixel_at(&steps, most) - begin + 1;
}

void resize_axis_needs(const struct resize_axis_key *key, uint32_t *first, uint32_t *count) {
    uint32_t end, ignored;
    if (resize_axis_copies(key)) {
        *first = (uint32_t)key->begin + key->part_first;
        *count = key->part_count;
        return;
    }
    if (key->filter == IMAGE_NEAREST) {
        nearest_needs(key, first, count);
        return;
    }
    struct window window = window_of(key);
    span_of(&window, key->source, key->part_first, first, &ignored);
    span_of(&window, key->source, key->part_first + key->part_count - 1, &ignored, &end);
    *count = end - *first;
}
