// Small texts that come from users: resume tokens, transforms, names, sizes, weights, and what feedctl prints of them.
//
// Input: a byte that says what the text is, and the text, which may have several lines.
#include <inttypes.h>
#include <math.h>
#include <xxhash.h>

#include "base/dtype.h"
#include "base/names.h"
#include "client/ctl/render.h"
#include "client/ctl/text.h"
#include "daemon/config/config_values.h"
#include "daemon/dataset/transform.h"
#include "order/mix.h"
#include "order/mix_weight.h"
#include "order/token.h"
#include "shm/layout.h"
#include "tests/fuzz/fuzz.h"

#define TEXT 600

// A token that is taken is what would be written for it.
static void check_token(const char *text) {
    struct resume_token token;
    struct error error = {0};
    char again[RESUME_TOKEN_BYTES];
    if (resume_token_parse(text, &token, &error) == 0) {
        resume_token_format(&token, again);
        FUZZ_CHECK(strcmp(text, again) == 0);
    } else {
        FUZZ_CHECK(*error.text);
    }
}

// As it is, and with the check word that belongs to it.
static void try_token(struct fuzz_input *input) {
    char text[TEXT], whole[TEXT + 32];
    fuzz_line(input, text, sizeof text);
    check_token(text);
    snprintf(whole, sizeof whole, "%s.%016" PRIx64, text, (uint64_t)XXH64(text, strlen(text), 0));
    check_token(whole);
}

static void check_steps(const struct transform *transform) {
    FUZZ_CHECK(transform->step_count <= TRANSFORM_MAX_STEPS);
    FUZZ_CHECK(transform->target == 0 || (transform->target != DTYPE_BOOL && transform->target <= DTYPE_F32));
    for (uint32_t i = 0; i < transform->step_count; i++) {
        const struct transform_step *step = &transform->steps[i];
        FUZZ_CHECK(step->count <= TRANSFORM_MAX_VALUES);
        for (uint32_t k = 0; k < step->count; k++)
            FUZZ_CHECK(isfinite(step->values[k]));
    }
}

static void try_transform(struct fuzz_input *input) {
    char text[TEXT];
    struct transform transform;
    struct error error = {0};
    uint64_t shape[RING_MAX_DIMS];
    uint32_t dtype = fuzz_byte(input) % (DTYPE_C128 + 2), dimensions = fuzz_byte(input) % (RING_MAX_DIMS + 1);
    for (uint32_t i = 0; i < dimensions; i++)
        shape[i] = 1 + fuzz_byte(input) % 8;
    if (transform_parse(fuzz_line(input, text, sizeof text), &transform, &error) < 0) {
        FUZZ_CHECK(*error.text);
        return;
    }
    check_steps(&transform);
    if (transform_fit(&transform, dtype, dimensions, shape, &error) == 0) {
        FUZZ_CHECK(transform.target && transform.elements && transform.elements % transform.channels == 0);
        FUZZ_CHECK(transform.elements % transform.channel == 0);
        transform_shape(&transform, &dimensions, shape);
        FUZZ_CHECK(dimensions <= RING_MAX_DIMS);
    }
}

static void try_names(struct fuzz_input *input) {
    char texts[3][TEXT];
    const char *names[] = {fuzz_line(input, texts[0], TEXT), NULL, fuzz_line(input, texts[1], TEXT)};
    const char *wanted = fuzz_line(input, texts[2], TEXT);
    const char *near = name_nearest(wanted, names, COUNT_OF(names));
    FUZZ_CHECK(!near || near == names[0] || near == names[2]);
    FUZZ_CHECK(name_distance(wanted, wanted) == 0 || strlen(wanted) > NAME_LENGTH_MAX);
    FUZZ_CHECK(!name_is_valid(wanted) || strlen(wanted) <= NAME_LENGTH_MAX);
    const char *dtype = dtype_nearest(wanted);
    FUZZ_CHECK(!dtype || dtype_parse(dtype));
    FUZZ_CHECK(dtype_parse(wanted) <= DTYPE_C128);
}

static void try_values(struct fuzz_input *input) {
    char text[TEXT], again[VALUE_TEXT];
    uint64_t value, same;
    bool truth;
    fuzz_line(input, text, sizeof text);
    if (value_parse_size(text, &value))
        FUZZ_CHECK(value_parse_size(value_format_size(value, again), &same) && same == value);
    if (value_parse_integer(text, &value))
        FUZZ_CHECK(value_parse_size(text, &same) && same == value);
    if (value_parse_mode(text, &value))
        FUZZ_CHECK(value <= 07777);
    value_parse_duration(text, &value);
    value_parse_bool(text, &truth);
    if (value_parse_choice(text, "auto|uring|mapped|pread", &value))
        FUZZ_CHECK(strcmp(value_choice_name("auto|uring|mapped|pread", value, again, sizeof again), text) ==
                   0);
}

// Weights keep their ratio as whole numbers, and a mixture can be made of these.
static void check_whole(const struct mix_weight *weights, const uint32_t *whole, uint32_t count) {
    struct mix *mix = NULL;
    struct error error = {0};
    for (uint32_t i = 1; i < count; i++) {
        const long double ratio = (long double)weights[i].digits / (long double)weights[0].digits *
                                  powl(10, weights[i].exponent - weights[0].exponent);
        FUZZ_CHECK(fabsl((long double)whole[i] / (long double)whole[0] / ratio - 1) < 1e-15L);
    }
    FUZZ_CHECK(mix_open_listed(whole, count, 100, &mix, &error) == 0);
    mix_close(mix);
}

static void try_weights(struct fuzz_input *input) {
    char text[TEXT], again[TEXT];
    struct mix_weight weights[8] = {0}, same;
    uint32_t whole[COUNT_OF(weights)], count = 0;
    struct error error = {0};
    while (input->left && count < COUNT_OF(weights)) {
        if (mix_weight_parse(fuzz_line(input, text, sizeof text), &weights[count], &error) < 0) {
            FUZZ_CHECK(*error.text);
            return;
        }
        snprintf(again, sizeof again, "%llue%d", (unsigned long long)weights[count].digits,
                 weights[count].exponent);
        FUZZ_CHECK(mix_weight_parse(again, &same, &error) == 0 && same.digits == weights[count].digits &&
                   same.exponent == weights[count].exponent);
        count++;
    }
    if (mix_weights_scale(weights, count, whole, &error) == 0)
        check_whole(weights, whole, count);
    else
        FUZZ_CHECK(*error.text);
}

static void try_printing(struct fuzz_input *input) {
    static FILE *nowhere;
    if (!nowhere)
        nowhere = fopen("/dev/null", "we");
    uint32_t width = fuzz_byte(input);
    static const struct column columns[] = {{"ONE", true, 1}, {"TWO", false, 2}, {"THREE", false, 0}};
    struct table table = {.columns = columns, .column_count = COUNT_OF(columns)};
    char texts[COUNT_OF(columns)][TEXT], size[CTL_TEXT];
    const char *cells[COUNT_OF(columns)];
    ctl_format_bytes(fuzz_number(input), size);
    ctl_format_duration(fuzz_number(input), size);
    ctl_format_count((double)fuzz_number(input) / 16, size);
    while (input->left) {
        for (size_t i = 0; i < COUNT_OF(columns); i++)
            cells[i] = fuzz_line(input, texts[i], TEXT);
        text_fold(cells[0], width % 5, width, nowhere);
        text_print_answer(cells[1], width, nowhere, nowhere);
        FUZZ_CHECK(text_prefix(cells[2], width) <= strlen(cells[2]));
        FUZZ_CHECK(table_add(&table, cells) == 0);
    }
    table_print(&table, width, nowhere);
    table_free(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const kinds[])(struct fuzz_input *) = {try_token,  try_transform, try_names,
                                                         try_values, try_printing,  try_weights};
    struct fuzz_input input = {data, size};
    kinds[fuzz_byte(&input) % COUNT_OF(kinds)](&input);
    return 0;
}
