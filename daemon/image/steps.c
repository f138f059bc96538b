#include "daemon/image/steps.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/image/image.h"
#include "daemon/image/resize.h"
#include "daemon/image/step_rules.h"

#define REFUSE(reader, wanted, ...)                                                                          \
    error_set((reader)->error, -EINVAL, "found \"%.*s\", wanted " wanted, (reader)->words.length,            \
              (reader)->words.step, ##__VA_ARGS__)
#define REFUSE_WORD(reader, wanted, ...)                                                                     \
    error_set((reader)->error, -EINVAL, "found \"%.*s\" in \"%.*s\", wanted " wanted,                        \
              (reader)->words.word_length, (reader)->words.word, (reader)->words.length,                     \
              (reader)->words.step, ##__VA_ARGS__)

struct reading {
    struct step_reader words;
    struct image_steps *steps;
    uint32_t geometric, colours; // steps so far
    struct error *error;
};

static const struct form_rule area_rule = {2, 2, false, 1e-6f, 1, "a share of the area of 1e-6 to 1"};
static const struct form_rule ratio_rule = {2, 2, false, 1e-3f, 1e3f, "a ratio of 0.001 to 1000"};
static const struct form_rule fill_rule = {1, 3, true, 0, 255, "a level of 0 to 255"};
static const struct form_rule padding_rule = {1, 1, true, 0, IMAGE_MAX_SIDE, "a margin of 0 to 65535 pixels"};

bool image_step_is_geometric(const struct image_step *step) {
    return step->kind < IMAGE_BRIGHTNESS;
}

bool image_steps_any(const struct image_steps *steps) {
    return steps->count || steps->flags & IMAGE_STEPS_DECODE || steps->with[0];
}

static bool at_number(const struct step_reader *words) {
    return words->word_length && strchr("+-.0123456789", *words->word);
}

// From the word that has been taken on: as many numbers as there are. The word after them is taken.
static int read_numbers(struct reading *reading, const struct form_rule *rule, float *values,
                        uint32_t *count) {
    struct step_reader *words = &reading->words;
    for (*count = 0; *count < rule->most && at_number(words); ++*count) {
        float *value = &values[*count];
        uint32_t whole = 0;
        bool right = rule->whole ? step_reader_whole(words, &whole) : step_reader_value(words, value);
        if (rule->whole)
            *value = (float)whole;
        if (!right || *value < rule->lowest || *value > rule->highest)
            return REFUSE_WORD(reading, "%s", rule->wanted);
        step_reader_word(words);
    }
    return 0;
}

// The two numbers after "area" or "ratio".
static int read_range(struct reading *reading, const struct form_rule *rule, float *values) {
    uint32_t count;
    int err = read_numbers(reading, rule, values, &count);
    if (!err && (count != 2 || values[0] > values[1]))
        err = REFUSE(reading, "two numbers, the lower one first, each %s", rule->wanted);
    return err;
}

static int read_fill(struct reading *reading, struct image_step *step) {
    float *fill = &step->values[IMAGE_VALUE_FILL];
    uint32_t count;
    int err = read_numbers(reading, &fill_rule, fill, &count);
    if (!err && count != 1 && count != 3)
        err = REFUSE(reading, "one level of 0 to 255 after fill, or one for each of 3 channels");
    if (!err && count == 3)
        step->flags |= IMAGE_STEP_COLOURS;
    if (!err && count == 1)
        fill[1] = fill[2] = fill[0];
    return err;
}

static int read_padding(struct reading *reading, struct image_step *step) {
    float *padding = &step->values[IMAGE_VALUE_PADDING];
    uint32_t count;
    int err = read_numbers(reading, &padding_rule, padding, &count);
    if (!err && count != 1)
        err = REFUSE(reading, "a margin of 0 to 65535 pixels after padding");
    padding[1] = padding[2] = padding[3] = padding[0];
    return err;
}

static uint32_t option_of(const struct step_reader *words) {
    static const struct {
        const char *name;
        uint32_t option;
    } options[] = {
        {"nearest", OPTION_FILTER},  {"bilinear", OPTION_FILTER}, {"bicubic", OPTION_FILTER},
        {"area", OPTION_AREA},       {"ratio", OPTION_RATIO},     {"fill", OPTION_FILL},
        {"padding", OPTION_PADDING},
    };
    for (size_t i = 0; i < COUNT_OF(options); i++)
        if (step_reader_is(words, options[i].name))
            return options[i].option;
    return 0;
}

static int read_option(struct reading *reading, struct image_step *step, uint32_t option) {
    struct step_reader *words = &reading->words;
    if (option == OPTION_FILTER)
        step->filter = step_reader_is(words, "nearest")    ? IMAGE_NEAREST
                       : step_reader_is(words, "bilinear") ? IMAGE_BILINEAR
                                                           : IMAGE_BICUBIC;
    step_reader_word(words);
    switch (option) {
    case OPTION_AREA:
        return read_range(reading, &area_rule, &step->values[IMAGE_VALUE_AREA]);
    case OPTION_RATIO:
        return read_range(reading, &ratio_rule, &step->values[IMAGE_VALUE_RATIO]);
    case OPTION_FILL:
        return read_fill(reading, step);
    case OPTION_PADDING:
        return read_padding(reading, step);
    default:
        return 0;
    }
}

// The words after the numbers, each option at most once.
static int read_options(struct reading *reading, struct image_step *step, const struct step_rule *rule) {
    uint32_t left = rule->options;
    int err = 0;
    while (!err && reading->words.word_length) {
        const uint32_t option = option_of(&reading->words);
        if (!(option & left))
            return REFUSE_WORD(reading, "%s", rule->usage);
        left &= ~option;
        err = read_option(reading, step, option);
    }
    return err;
}

static void set_sides(struct image_step *step, const float *numbers, uint32_t count) {
    step->height = (uint32_t)numbers[0];
    step->width = (uint32_t)numbers[count - 1];
    if (step->kind == IMAGE_RESIZE && count == 1)
        step->flags |= IMAGE_STEP_SHORTER;
}

// One number F stands for a range around 1, or 0 for hues.
static bool set_factors(struct image_step *step, const float *numbers, uint32_t count) {
    float *lowest = &step->values[IMAGE_VALUE_LOWEST], *highest = &step->values[IMAGE_VALUE_HIGHEST];
    *lowest = numbers[0];
    *highest = numbers[count - 1];
    if (count == 1 && step->kind == IMAGE_HUE) {
        *lowest = -numbers[0];
    } else if (count == 1) {
        *lowest = numbers[0] < 1 ? 1 - numbers[0] : 0;
        *highest = 1 + numbers[0];
    }
    return *lowest <= *highest;
}

static bool set_numbers(struct image_step *step, enum form form, const float *numbers, uint32_t count) {
    switch (form) {
    case FORM_SIDES:
        set_sides(step, numbers, count);
        return true;
    case FORM_CHANCE:
        if (count)
            step->values[IMAGE_VALUE_CHANCE] = numbers[0];
        return count || step->kind == IMAGE_FLIP || step->kind == IMAGE_VERTICAL_FLIP;
    case FORM_FACTORS:
    case FORM_HUE:
        return set_factors(step, numbers, count);
    case FORM_PADDING:
        for (uint32_t i = 0; i < 4; i++)
            step->values[IMAGE_VALUE_PADDING + i] = numbers[count == 1 ? 0 : i];
        return count == 1 || count == 4;
    case FORM_OPERATIONS:
        if (count)
            memcpy(&step->values[IMAGE_VALUE_COUNT], numbers, 2 * sizeof *numbers);
        return count == 0 || (count == 2 && numbers[0] >= 1 && numbers[0] <= 16);
    case FORM_NONE:
        break;
    }
    return true;
}

// A step may come here: not after `with`, not too late, not as one too many.
static int check_place(struct reading *reading, const struct image_step *step) {
    const struct image_steps *steps = reading->steps;
    if (steps->with[0])
        return REFUSE(reading, "only steps on values after with, which takes the steps of %s", steps->with);
    if (image_step_is_geometric(step) && reading->colours)
        return REFUSE(reading, "it before %s, because steps on colours follow those that move pixels",
                      image_step_name(steps->steps[steps->count - 1].kind));
    if (steps->count == IMAGE_MAX_STEPS)
        return REFUSE(reading, "at most %u steps on images", IMAGE_MAX_STEPS);
    return 0;
}

static int read_step(struct reading *reading, const struct step_rule *rule) {
    const struct form_rule *form = &image_forms[rule->form];
    struct image_step step = {.kind = rule->kind};
    float numbers[4] = {0};
    uint32_t count;
    int err = check_place(reading, &step);
    if (err)
        return err;
    image_step_defaults(&step);
    step_reader_word(&reading->words);
    err = read_numbers(reading, form, numbers, &count);
    if (err)
        return err;
    if (count < form->least || !set_numbers(&step, rule->form, numbers, count))
        return REFUSE(reading, "%s", rule->usage);
    err = read_options(reading, &step, rule);
    step.number =
        image_step_is_geometric(&step) ? reading->geometric++ : IMAGE_STEP_FIRST_COLOUR + reading->colours++;
    reading->steps->steps[reading->steps->count++] = step;
    return err;
}

static int read_decode(struct reading *reading) {
    struct image_steps *steps = reading->steps;
    struct step_reader *words = &reading->words;
    if (image_steps_any(steps))
        return REFUSE(reading, "it as the first step");
    steps->flags = IMAGE_STEPS_DECODE;
    while (step_reader_word(words)) {
        const bool gray = step_reader_is(words, "gray"), rgb = step_reader_is(words, "rgb");
        const uint32_t flag = step_reader_is(words, "fast")   ? IMAGE_STEPS_FAST
                              : step_reader_is(words, "exif") ? IMAGE_STEPS_EXIF
                              : step_reader_is(words, "gpu")  ? IMAGE_STEPS_GPU
                                                              : 0;
        if (!(flag & ~steps->flags) && !((gray || rgb) && !steps->channels))
            return REFUSE_WORD(reading, "decode [fast|gpu] [gray|rgb] [exif]");
        steps->flags |= flag;
        steps->channels = gray ? 1 : rgb ? 3 : steps->channels;
    }
    return 0;
}

static int read_with(struct reading *reading) {
    struct image_steps *steps = reading->steps;
    struct step_reader *words = &reading->words;
    struct image_step step = {0};
    if (steps->count || steps->with[0])
        return REFUSE(reading, "it before all steps but decode");
    if (!step_reader_word(words) || words->word_length > (int)NAME_LENGTH_MAX)
        return REFUSE(reading, "with FIELD [fill V], the name of another field");
    memcpy(steps->with, words->word, (size_t)words->word_length);
    if (!name_is_valid(steps->with))
        return REFUSE_WORD(reading, "the name of another field");
    if (!step_reader_word(words))
        return 0;
    if (!step_reader_is(words, "fill"))
        return REFUSE_WORD(reading, "with FIELD [fill V]");
    step_reader_word(words);
    int err = read_fill(reading, &step);
    if (!err && (words->word_length || step.flags))
        err = REFUSE(reading, "with FIELD [fill V]");
    steps->fill = (uint32_t)step.values[IMAGE_VALUE_FILL];
    return err;
}

// Reads a step, or finds that it is none of an image's: then *done.
static int read_any(struct reading *reading, bool *done) {
    struct step_reader *words = &reading->words;
    if (!step_reader_word(words) && image_steps_any(reading->steps))
        return REFUSE(reading, "a step after the comma");
    if (step_reader_is(words, "decode"))
        return read_decode(reading);
    if (step_reader_is(words, "with"))
        return read_with(reading);
    const struct step_rule *rule = image_step_rule(words);
    *done = !rule;
    return rule ? read_step(reading, rule) : 0;
}

int image_steps_parse(const char *text, struct image_steps *steps, const char **rest, struct error *error) {
    struct reading reading = {.steps = steps, .error = error};
    bool done = false, more = true;
    int err = 0;
    *steps = (struct image_steps){0};
    *rest = text + strlen(text);
    step_reader_begin(&reading.words, text);
    while (!err && !done && more) {
        err = read_any(&reading, &done);
        if (done)
            *rest = reading.words.step;
        else
            more = step_reader_next(&reading.words);
    }
    return err;
}
