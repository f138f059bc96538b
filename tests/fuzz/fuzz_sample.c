// A sample of any type and shape, as feedctl show prints it, draws it and describes it in JSON.
//
// Input: type, dimensions and shape, how to print, and the bytes of the sample, which are repeated as needed.
#include "client/ctl/show_field.h"
#include "tests/fuzz/fuzz.h"

#define ESCAPE 0x1b // before a colour

static void make_field(struct fuzz_input *input, struct feed_array *array) {
    *array = (struct feed_array){.name = "field", .dtype = 1 + fuzz_byte(input) % FEED_C128, .shape = {1}};
    array->dimensions = 1 + fuzz_byte(input) % 4;
    array->bytes = feed_dtype_bytes(array->dtype);
    for (uint32_t i = 1; i < array->dimensions; i++) {
        array->shape[i] = 1 + fuzz_byte(input) % 16;
        array->bytes *= array->shape[i];
    }
}

static uint8_t *make_data(struct fuzz_input *input, size_t bytes) {
    uint8_t *data = calloc(1, bytes);
    FUZZ_CHECK(data);
    const uint8_t *from;
    size_t count = fuzz_bytes(input, &from, bytes);
    for (size_t i = 0; count && i < bytes; i++)
        data[i] = from[i % count];
    return data;
}

static bool is_control(const char *at) {
    unsigned char first = (unsigned char)at[0], second = (unsigned char)at[1];
    return first < 0x20 || first == 0x7f || (first == 0xc2 && second >= 0x80 && second < 0xa0);
}

// Nothing that a sample says reaches the terminal except as text.
static void check_print(const struct shown_field *field, const struct show_style *style) {
    char *text AUTO_FREE = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    FUZZ_CHECK(out && show_field_print(field, style, out) == 0);
    fclose(out);
    FUZZ_CHECK(strlen(text) == bytes && bytes > 0 && text[bytes - 1] == '\n');
    for (size_t i = 0; i < bytes; i++)
        FUZZ_CHECK(!is_control(text + i) || text[i] == '\n' || (text[i] == ESCAPE && field->image.pixels));
}

static void check_json(const struct shown_field *field, const struct show_style *style) {
    json_t *object = show_field_json(field, style);
    FUZZ_CHECK(object);
    uint64_t count = json_array_size(json_object_get(object, "values"));
    FUZZ_CHECK(count == min_u64(field->summary.count, style->values));
    char *text AUTO_FREE = json_dumps(object, JSON_REAL_PRECISION(17));
    json_decref(object);
    json_t *again = json_loads(text, 0, NULL);
    FUZZ_CHECK(again);
    json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct feed_array array;
    make_field(&input, &array);
    struct show_style style = {.width = fuzz_byte(&input), .values = fuzz_number(&input)};
    uint8_t flags = fuzz_byte(&input);
    style.values_given = flags & 1;
    style.true_colour = flags & 2;
    if (!style.values || !style.values_given)
        style.values = UINT64_MAX;
    uint8_t *bytes AUTO_FREE = make_data(&input, array.bytes);
    array.data = bytes;
    struct shown_field field = {
        .array = &array,
        .summary = summarise(array.dtype, bytes, array.bytes / feed_dtype_bytes(array.dtype))};
    FUZZ_CHECK(summary_finite(&field.summary) <= field.summary.count);
    if (image_is(&array) && flags & 4)
        FUZZ_CHECK(image_make(&field.image, &array, &field.summary) == 0);
    check_print(&field, &style);
    check_json(&field, &style);
    image_free(&field.image);
    return 0;
}
