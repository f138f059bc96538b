#include "daemon/dataset/transform.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"

#define STEP_NAMES   "cast, scale, shift, mean, std or standardise"
#define NUMBER_WORDS "a number like 0.5, -2e-3 or 1/255 that f32 can hold"
#define BLANKS       " \t"

// One step as written, and how far it has been read.
struct reading {
    const char *step;
    int length;
    const char *at, *end;
    uint32_t number; // of the step, from 1
    struct error *error;
};

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

bool transform_takes(uint32_t dtype) {
    return dtype_bytes(dtype) && dtype != DTYPE_C64 && dtype != DTYPE_C128;
}

#define REFUSE(reading, ...) error_set((reading)->error, -EINVAL, __VA_ARGS__)

// The next word of the step; its length, 0 at the end.
static size_t take_word(struct reading *reading, const char **word) {
    while (reading->at < reading->end && strchr(BLANKS, *reading->at))
        reading->at++;
    *word = reading->at;
    while (reading->at < reading->end && !strchr(BLANKS, *reading->at))
        reading->at++;
    return (size_t)(reading->at - *word);
}

static bool is_word(const char *word, size_t length, const char *wanted) {
    return strlen(wanted) == length && memcmp(word, wanted, length) == 0;
}

// Decimal, with an optional point and exponent; no words like inf, no hexadecimal.
static const char *parse_decimal(const char *at, double *number) {
    char *end;
    const char *digits = at + (*at == '-' || *at == '+');
    if (!isdigit((unsigned char)*digits) && *digits != '.')
        return NULL;
    if (strspn(at, "+-.0123456789eE") < strcspn(at, "/"))
        return NULL;
    *number = strtod(at, &end); // the daemon's locale is C
    return end == at ? NULL : end;
}

// NUMBER or NUMBER/NUMBER, divided as float64 and then rounded to float32.
static bool parse_value(const char *word, size_t length, float *value) {
    char text[64];
    double number, divisor = 1;
    if (length >= sizeof text)
        return false;
    memcpy(text, word, length);
    text[length] = '\0';
    const char *at = parse_decimal(text, &number);
    if (at && *at == '/')
        at = parse_decimal(at + 1, &divisor);
    if (!at || *at || divisor == 0)
        return false;
    *value = (float)(number / divisor);
    return isfinite(*value);
}

static int read_values(struct reading *reading, struct transform_step *step, size_t kind) {
    const char *word;
    size_t length;
    while ((length = take_word(reading, &word))) {
        if (step->count == steps[kind].most)
            return REFUSE(reading, "found \"%.*s\", wanted %s with %s", reading->length, reading->step,
                          steps[kind].name, steps[kind].wanted);
        float *value = &step->values[step->count];
        if (!parse_value(word, length, value))
            return REFUSE(reading, "found \"%.*s\" in \"%.*s\", wanted " NUMBER_WORDS, (int)length, word,
                          reading->length, reading->step);
        if (step->kind == TRANSFORM_STD && *value == 0)
            return REFUSE(reading, "found \"%.*s\" in \"%.*s\", wanted a number other than 0", (int)length,
                          word, reading->length, reading->step);
        step->count++;
    }
    if (step->count == 0 && steps[kind].most)
        return REFUSE(reading, "found \"%.*s\", wanted %s with %s", reading->length, reading->step,
                      steps[kind].name, steps[kind].wanted);
    return 0;
}

static int read_cast(struct reading *reading, struct transform *transform) {
    const char *word, *rest;
    size_t length = take_word(reading, &word), more = take_word(reading, &rest);
    static const uint32_t targets[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    if (transform->target)
        return REFUSE(reading, "found \"%.*s\" as a second cast, wanted one", reading->length, reading->step);
    for (size_t i = 0; i < COUNT_OF(targets) && !more; i++)
        if (is_word(word, length, dtype_name(targets[i])))
            transform->target = targets[i];
    if (!transform->target)
        return REFUSE(reading, "found \"%.*s\", wanted cast f32, cast f16 or cast bf16", reading->length,
                      reading->step);
    return 0;
}

static int read_step(struct reading *reading, struct transform *transform) {
    const char *word;
    size_t length = take_word(reading, &word);
    if (is_word(word, length, "cast"))
        return read_cast(reading, transform);
    if (transform->target && transform->target != DTYPE_F32)
        return REFUSE(reading,
                      "found \"%.*s\" after cast %s, wanted the cast last, because steps compute in f32",
                      reading->length, reading->step, dtype_name(transform->target));
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        if (!is_word(word, length, steps[i].name))
            continue;
        if (transform->step_count == TRANSFORM_MAX_STEPS)
            return REFUSE(reading, "found \"%.*s\" as one step too many, wanted at most %u", reading->length,
                          reading->step, TRANSFORM_MAX_STEPS);
        struct transform_step *step = &transform->steps[transform->step_count++];
        step->kind = steps[i].kind;
        return read_values(reading, step, i);
    }
    return REFUSE(reading, "found \"%.*s\" as step %" PRIu32 ", wanted " STEP_NAMES, reading->length,
                  reading->step, reading->number);
}

int transform_parse(const char *text, struct transform *transform, struct error *error) {
    struct reading reading = {.error = error};
    int err = 0;
    *transform = (struct transform){0};
    for (const char *at = text; !err; at = reading.end + 1) {
        at += strspn(at, BLANKS);
        reading.step = reading.at = at;
        reading.end = at + strcspn(at, ",");
        reading.length = (int)(reading.end - at);
        while (reading.length && strchr(BLANKS, at[reading.length - 1]))
            reading.length--;
        reading.number++;
        err = read_step(&reading, transform);
        if (*reading.end == '\0')
            break;
    }
    if (!err && !transform->target)
        transform->target = DTYPE_F32;
    return err;
}

static const char *step_name(uint32_t kind) {
    for (size_t i = 0; i < COUNT_OF(steps); i++)
        if (steps[i].kind == kind)
            return steps[i].name;
    return "?";
}

int transform_fit(struct transform *transform, uint32_t dtype, uint32_t dimensions, const uint64_t *shape,
                  struct error *error) {
    if (!transform_takes(dtype))
        return error_set(error, -EINVAL, "found a field of %s, wanted one of real numbers",
                         dtype_name(dtype));
    uint64_t channels = dimensions ? shape[0] : 1;
    transform->stored = dtype;
    transform->elements = 1;
    for (uint32_t i = 0; i < dimensions; i++)
        transform->elements *= shape[i]; // samples are of 1 byte to 1 GiB
    transform->channel = transform->elements / channels;
    for (uint32_t i = 0; i < transform->step_count; i++) {
        const struct transform_step *step = &transform->steps[i];
        if (step->count > 1 && step->count != channels)
            return error_set(error, -EINVAL,
                             "found %" PRIu32 " numbers after %s, wanted 1, or %" PRIu64
                             ", the size of a sample's first axis",
                             step->count, step_name(step->kind), channels);
    }
    return 0;
}
