#include "daemon/dataset/transform.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/names.h"
#include "base/sizes.h"
#include "base/step_reader.h"
#include "daemon/image/step_rules.h"

#define STEP_NAMES                                                                                           \
    "cast, layout, scale, shift, mean, std or standardise, or a step on images (docs/images.md)"
#define MOST_CHANNELS 4u // of what is taken for an image
#define KNOWN_STEPS   32u

struct reading {
    struct step_reader words, first; // the step that is read, and the first one
    struct error *error;
};

bool transform_takes(uint32_t dtype) {
    return dtype_bytes(dtype) && dtype != DTYPE_C64 && dtype != DTYPE_C128;
}

static const struct {
    const char *name;
    uint32_t kind;
    uint32_t most; // numbers
    const char *wanted;
} steps[] = {
    {"scale", TRANSFORM_SCALE, 1, "one number after it"},
    {"shift", TRANSFORM_SHIFT, 1, "one number after it"},
    {"mean", TRANSFORM_MEAN, TRANSFORM_MAX_VALUES,
     "one number after it, or one for each of at most 32 channels"},
    {"std", TRANSFORM_STD, TRANSFORM_MAX_VALUES,
     "one number after it, or one for each of at most 32 channels"},
    {"standardise", TRANSFORM_STANDARDISE, 0, "no number after it"},
};
_Static_assert(TRANSFORM_MAX_VALUES == 32, "said above");

#define REFUSE(reading, ...) error_set((reading)->error, -EINVAL, __VA_ARGS__)
// For "%.*s": the step, and its last word.
#define STEP(reading) (reading)->words.length, (reading)->words.step
#define WORD(reading) (reading)->words.word_length, (reading)->words.word

static int read_values(struct reading *reading, struct transform_step *step, size_t kind) {
    while (step_reader_word(&reading->words)) {
        if (step->count == steps[kind].most)
            return REFUSE(reading, "found \"%.*s\", wanted %s with %s", STEP(reading), steps[kind].name,
                          steps[kind].wanted);
        float *value = &step->values[step->count];
        if (!step_reader_value(&reading->words, value))
            return REFUSE(reading, "found \"%.*s\" in \"%.*s\", wanted " STEP_NUMBER_WORDS, WORD(reading),
                          STEP(reading));
        if (step->kind == TRANSFORM_STD && *value == 0)
            return REFUSE(reading, "found \"%.*s\" in \"%.*s\", wanted a number other than 0", WORD(reading),
                          STEP(reading));
        step->count++;
    }
    if (step->count == 0 && steps[kind].most)
        return REFUSE(reading, "found \"%.*s\", wanted %s with %s", STEP(reading), steps[kind].name,
                      steps[kind].wanted);
    return 0;
}

// The type of the last word, if a cast can make it, or 0.
static uint32_t target_of(const struct step_reader *words) {
    static const uint32_t targets[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_U8,  DTYPE_I8, DTYPE_U16,
                                       DTYPE_I16, DTYPE_U32, DTYPE_I32,  DTYPE_U64, DTYPE_I64};
    for (size_t i = 0; i < COUNT_OF(targets); i++)
        if (step_reader_is(words, dtype_name(targets[i])))
            return targets[i];
    return 0;
}

static int read_cast(struct reading *reading, struct transform *transform) {
    if (transform->target)
        return REFUSE(reading, "found \"%.*s\" as a second cast, wanted one", STEP(reading));
    step_reader_word(&reading->words);
    transform->target = target_of(&reading->words);
    if (!transform->target || step_reader_word(&reading->words))
        return REFUSE(
            reading,
            "found \"%.*s\", wanted cast f32, cast f16, cast bf16, or cast to one of u8 i8 u16 i16 u32 i32 "
            "u64 i64",
            STEP(reading));
    return 0;
}

static int read_layout(struct reading *reading, struct transform *transform) {
    struct step_reader *words = &reading->words;
    if (transform->layout)
        return REFUSE(reading, "found \"%.*s\" as a second layout, wanted one", STEP(reading));
    step_reader_word(words);
    transform->layout = step_reader_is(words, "chw")   ? TRANSFORM_CHW
                        : step_reader_is(words, "hwc") ? TRANSFORM_HWC
                                                       : TRANSFORM_NO_LAYOUT;
    if (!transform->layout || step_reader_word(words))
        return REFUSE(reading, "found \"%.*s\", wanted layout chw or layout hwc", STEP(reading));
    return 0;
}

// A step on images after one on values, or a step that does not exist.
static int refuse_step(const struct reading *reading, bool on_images) {
    const char *known[KNOWN_STEPS], *name;
    char word[NAME_LENGTH_MAX + 1];
    size_t count = 0;
    if (on_images)
        return REFUSE(reading,
                      "found \"%.*s\", wanted it before \"%.*s\", because steps on images come first",
                      STEP(reading), reading->first.length, reading->first.step);
    for (size_t i = 0; i < COUNT_OF(steps); i++)
        known[count++] = steps[i].name;
    known[count++] = "cast";
    known[count++] = "layout";
    for (size_t i = 0; count < KNOWN_STEPS && (name = image_step_known(i)); i++)
        known[count++] = name;
    snprintf(word, sizeof word, "%.*s", WORD(reading));
    name = name_nearest(word, known, count);
    if (name)
        return REFUSE(reading, "found \"%.*s\", which is not a step; perhaps you mean \"%s\"", STEP(reading),
                      name);
    return REFUSE(reading, "found \"%.*s\", wanted " STEP_NAMES, STEP(reading));
}

static bool is_on_images(const struct step_reader *words) {
    const char *name;
    for (size_t i = 0; (name = image_step_known(i)); i++)
        if (step_reader_is(words, name))
            return true;
    return false;
}

static int read_step(struct reading *reading, struct transform *transform) {
    if (!step_reader_word(&reading->words))
        return REFUSE(reading, "found \"\" between commas or after the last one, wanted " STEP_NAMES);
    if (is_on_images(&reading->words))
        return refuse_step(reading, true);
    if (step_reader_is(&reading->words, "cast"))
        return read_cast(reading, transform);
    if (step_reader_is(&reading->words, "layout"))
        return read_layout(reading, transform);
    if (transform->target && transform->target != DTYPE_F32)
        return REFUSE(reading,
                      "found \"%.*s\" after cast %s, wanted the cast last, because steps compute in f32",
                      STEP(reading), dtype_name(transform->target));
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        if (!step_reader_is(&reading->words, steps[i].name))
            continue;
        if (transform->step_count == TRANSFORM_MAX_STEPS)
            return REFUSE(reading, "found \"%.*s\" as one step too many, wanted at most %u", STEP(reading),
                          TRANSFORM_MAX_STEPS);
        struct transform_step *step = &transform->steps[transform->step_count++];
        step->kind = steps[i].kind;
        return read_values(reading, step, i);
    }
    return refuse_step(reading, false);
}

int transform_parse(const char *text, struct transform *transform, struct error *error) {
    struct reading reading = {.error = error};
    *transform = (struct transform){0};
    if (*text == '\0')
        return 0;
    step_reader_begin(&reading.words, text);
    reading.first = reading.words;
    int err;
    do
        err = read_step(&reading, transform);
    while (!err && step_reader_next(&reading.words));
    return err;
}

static const char *step_name(uint32_t kind) {
    for (size_t i = 0; i < COUNT_OF(steps); i++)
        if (steps[i].kind == kind)
            return steps[i].name;
    return "?";
}

// How the axes of a stored image lie: the shorter one of the first and the last is that of the channels.
static int arrange(struct transform *transform, uint32_t dimensions, const uint64_t *shape,
                   struct error *error) {
    bool first = dimensions == 3 && shape[0] <= MOST_CHANNELS,
         last = dimensions == 3 && shape[2] <= MOST_CHANNELS;
    if (dimensions != 2 && first == last)
        return error_set(
            error, -EINVAL,
            "found layout for a field of %" PRIu32 " dimensions%s, wanted an image: [H,W], or [H,W,C] or "
            "[C,H,W] with 1 to %u channels in one of these places",
            dimensions, first ? ", the first and the last of which may be the channels" : "", MOST_CHANNELS);
    transform->arrangement = first ? TRANSFORM_CHW : TRANSFORM_HWC;
    transform->channels = dimensions == 2 ? 1 : shape[first ? 0 : 2];
    return 0;
}

// What follows from the stored type, the elements, the channels and the arrangement.
static int finish(struct transform *transform, uint32_t dtype, struct error *error) {
    transform->stored = dtype;
    transform->channel =
        transform->arrangement == TRANSFORM_HWC ? 1 : transform->elements / transform->channels;
    transform->planes = transform->layout == TRANSFORM_CHW;
    if (!transform->target)
        transform->target = transform->step_count ? (uint32_t)DTYPE_F32 : dtype;
    for (uint32_t i = 0; i < transform->step_count; i++) {
        const struct transform_step *step = &transform->steps[i];
        if (step->count > 1 && transform->channels == 1)
            return error_set(error, -EINVAL, "found %" PRIu32 " numbers after %s, wanted 1", step->count,
                             step_name(step->kind));
        if (step->count > 1 && step->count != transform->channels)
            return error_set(
                error, -EINVAL, "found %" PRIu32 " numbers after %s, wanted 1, or %" PRIu64 ", %s",
                step->count, step_name(step->kind), transform->channels,
                transform->arrangement ? "one per channel" : "the size of a sample's first axis");
    }
    return 0;
}

int transform_fit(struct transform *transform, uint32_t dtype, uint32_t dimensions, const uint64_t *shape,
                  struct error *error) {
    if (!transform_takes(dtype))
        return error_set(error, -EINVAL, "found a field of %s, wanted one of real numbers",
                         dtype_name(dtype));
    transform->elements = 1;
    for (uint32_t i = 0; i < dimensions; i++)
        transform->elements *= shape[i]; // samples are of 1 byte to 1 GiB
    transform->channels = dimensions ? shape[0] : 1;
    int err = transform->layout ? arrange(transform, dimensions, shape, error) : 0;
    return err ? err : finish(transform, dtype, error);
}

int transform_fit_image(struct transform *transform, uint32_t height, uint32_t width, uint32_t channels,
                        struct error *error) {
    transform->elements = (uint64_t)height * width * channels;
    transform->channels = channels;
    transform->arrangement = TRANSFORM_HWC;
    return finish(transform, DTYPE_U8, error);
}

void transform_fit_planes(struct transform *transform, uint64_t channels, uint64_t size) {
    transform->elements = channels * size;
    transform->channels = channels;
    transform->channel = size;
    transform->arrangement = transform->layout = TRANSFORM_CHW;
    transform->planes = 1;
}

void transform_shape(const struct transform *transform, uint32_t *dimensions, uint64_t *shape) {
    if (!transform->layout)
        return;
    const bool planes = *dimensions == 3 && transform->arrangement == TRANSFORM_CHW;
    const uint64_t height = shape[planes ? 1 : 0], width = shape[planes ? 2 : 1];
    *dimensions = 3;
    shape[transform->planes ? 0 : 2] = transform->channels;
    shape[transform->planes ? 1 : 0] = height;
    shape[transform->planes ? 2 : 1] = width;
}

bool transform_is_of_values(const struct transform *transform) {
    for (uint32_t i = 0; i < transform->step_count; i++)
        if (transform->steps[i].kind == TRANSFORM_STANDARDISE)
            return false;
    return true;
}

bool transform_moves(const struct transform *transform) {
    return transform->layout && transform->layout != transform->arrangement && transform->channels > 1 &&
           transform->channels < transform->elements;
}
