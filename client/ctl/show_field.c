#include "client/ctl/show_field.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "client/ctl/encoded.h"
#include "client/ctl/image_draw.h"
#include "client/ctl/render.h"
#include "client/ctl/sample_text.h"
#include "client/ctl/text.h"

#define INDENT        4
#define TITLE_INDENT  2
#define DEFAULT_WIDTH 80
#define TEXT_MOST     2000 // bytes of a text, unless values are asked for
#define TEXT_LEAST    16   // fewer values may be numbers that look like text

void show_field_title(const struct feed_array *array, const char *gap, char *text, size_t bytes) {
    size_t used = (size_t)snprintf(text, bytes, "%s%s%s", array->name, gap, feed_dtype_name(array->dtype));
    if (array->ragged && !array->data && used < bytes) // a description, of no sample
        used += (size_t)snprintf(text + used, bytes - used, "[]");
    else if (array->ragged && used < bytes)
        used += (size_t)snprintf(text + used, bytes - used, "[%" PRIu64 "]", array->shape[0]);
    for (uint32_t i = 1; i < array->dimensions && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%c%" PRIu64 "%s", i == 1 ? '[' : ',',
                                 array->shape[i], i + 1 == array->dimensions ? "]" : "");
    text_clean(text);
}

// Of a field with one dimension; a picture's pixels are not text even if they look like it.
static bool is_text(const struct feed_array *array, size_t *length) {
    return array->dtype == FEED_U8 && (array->ragged || array->dimensions == 2) &&
           sample_text_is(array->data, array->bytes, length);
}

// ---- For people ------------------------------------------------------------------------------------

static uint32_t line_width(const struct show_style *style) {
    return style->width ? style->width : DEFAULT_WIDTH;
}

static void print_text(const struct feed_array *array, size_t length, const struct show_style *style,
                       FILE *out) {
    const uint8_t *text = array->data;
    size_t most = style->values_given ? style->values : TEXT_MOST, shown = length;
    if (shown > most)
        for (shown = most; shown > 0 && (text[shown] & 0xc0) == 0x80; shown--)
            ; // back to where a character begins
    sample_text_print(text, shown, INDENT, style->width, out);
    if (shown < length)
        fprintf(out, "%*s... and %zu bytes more\n", INDENT, "", length - shown);
}

// One line, unless the number is given.
static void print_values(const struct shown_field *field, const struct show_style *style, FILE *out) {
    static const char more[] = " ...";
    uint64_t count = field->summary.count, most = min_u64(count, style->values), i;
    uint32_t width = line_width(style), column = INDENT;
    fprintf(out, "%*s", INDENT, "");
    for (i = 0; i < most; i++) {
        char text[ELEMENT_TEXT];
        struct element element = element_at(field->array->dtype, field->array->data, i);
        uint32_t columns = (uint32_t)strlen(element_format(&element, text));
        uint32_t needed = columns + 1 + (i + 1 < count && !style->values_given ? sizeof more - 1 : 0);
        bool full = column > INDENT && column + needed > width;
        if (full && !style->values_given)
            break;
        if (full)
            fprintf(out, "\n%*s", INDENT, "");
        column = full ? INDENT : column;
        fprintf(out, "%s%s", column > INDENT ? " " : "", text);
        column += columns + (column > INDENT);
    }
    fprintf(out, "%s\n", i < count ? (column + strlen(more) > width ? "\n    ..." : more) : "");
}

// "min 0, max 9, mean 4.5" and how many are none of that.
static void print_summary(const struct summary *summary, const struct show_style *style, FILE *out) {
    char text[4 * ELEMENT_TEXT + 128] = "", least[ELEMENT_TEXT], most[ELEMENT_TEXT], mean[ELEMENT_TEXT];
    struct element from = summary->least, to = summary->most;
    size_t used = 0;
    bool pairs = summary->mean.kind == ELEMENT_COMPLEX;
    if (pairs) {
        from = (struct element){.kind = ELEMENT_REAL, .real = element_number(&summary->least)};
        to = (struct element){.kind = ELEMENT_REAL, .real = element_number(&summary->most)};
    }
    if (summary_finite(summary) && from.kind == ELEMENT_BOOL)
        used = (size_t)snprintf(text, sizeof text, "true: %" PRIu64 " of %" PRIu64, summary->truths,
                                summary->count);
    else if (summary_finite(summary))
        used = (size_t)snprintf(
            text, sizeof text, pairs ? "magnitude %s to %s, mean %s" : "min %s, max %s, mean %s",
            element_format(&from, least), element_format(&to, most), element_format(&summary->mean, mean));
    if (summary->nans)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRIu64 " NaN", used ? ", " : "",
                                 summary->nans);
    if (summary->infinite)
        snprintf(text + used, sizeof text - used, "%s%" PRIu64 " infinite", used ? ", " : "",
                 summary->infinite);
    fprintf(out, "%*s", INDENT, "");
    text_fold(text, INDENT, style->width, out);
}

// As wide as the terminal at most, and not taller than that.
static int draw(const struct image *image, const struct show_style *style, FILE *out) {
    uint32_t width = line_width(style), most = width > INDENT ? width - INDENT : 1;
    struct image small CLEANUP(image_free) = {0};
    int err = image_shrink(image, most, most, &small);
    if (!err)
        image_draw(&small, style->true_colour, INDENT, out);
    return err;
}

static void print_encoded(const struct encoded *encoded, FILE *out) {
    fprintf(out, "%*sencoded as %s", INDENT, "", encoding_name(encoded->encoding));
    if (encoded->width)
        fprintf(out, ", %u x %u pixels", encoded->width, encoded->height);
    fprintf(out, "\n");
}

int show_field_print(const struct shown_field *field, const struct show_style *style, FILE *out) {
    char title[512];
    size_t length;
    bool text = is_text(field->array, &length);
    const struct encoded encoded = encoded_find(field->array);
    show_field_title(field->array, "  ", title, sizeof title);
    fprintf(out, "%*s", TITLE_INDENT, "");
    text_fold(title, TITLE_INDENT, style->width, out);
    if (encoded.encoding)
        print_encoded(&encoded, out);
    if (text) {
        fprintf(out, "%*s", INDENT, "");
        print_text(field->array, length, style, out);
    }
    // The bytes of a text or of an encoded image say nothing to people as numbers.
    const bool plain = !text && !encoded.encoding;
    const bool short_text = text && !field->array->ragged && field->summary.count < TEXT_LEAST;
    if (plain || short_text || (encoded.encoding && style->values_given))
        print_values(field, style, out);
    if (plain && field->summary.count > 1)
        print_summary(&field->summary, style, out);
    int err = field->image.pixels ? draw(&field->image, style, out) : 0;
    if (field->file)
        fprintf(out, "%*swritten to %s\n", INDENT, "", field->file);
    return err;
}

// ---- JSON ------------------------------------------------------------------------------------------

static json_t *shape_json(const struct feed_array *array) {
    json_t *shape = json_array();
    if (array->ragged)
        json_array_append_new(shape, json_integer((json_int_t)array->shape[0]));
    for (uint32_t i = 1; i < array->dimensions; i++)
        json_array_append_new(shape, json_integer((json_int_t)array->shape[i]));
    return shape;
}

static json_t *values_json(const struct shown_field *field, const struct show_style *style) {
    json_t *values = json_array();
    uint64_t count = min_u64(field->summary.count, style->values);
    for (uint64_t i = 0; i < count; i++) {
        struct element element = element_at(field->array->dtype, field->array->data, i);
        if (json_array_append_new(values, element_json(&element)) < 0) {
            json_decref(values);
            return NULL;
        }
    }
    return values;
}

static json_t *text_json(const struct feed_array *array) {
    size_t length;
    return is_text(array, &length) ? json_stringn(array->data, length) : json_null();
}

// Of complex numbers these are magnitudes.
static json_t *bound_json(const struct summary *summary, const struct element *bound) {
    if (!summary_finite(summary))
        return json_null();
    return bound->kind == ELEMENT_COMPLEX ? element_real_json(element_number(bound)) : element_json(bound);
}

static json_t *image_json(const struct feed_array *array) {
    struct image size;
    if (!image_size(array, &size))
        return json_null();
    return json_pack("{s:I, s:I, s:I}", "width", (json_int_t)size.width, "height", (json_int_t)size.height,
                     "channels", (json_int_t)size.channels);
}

static json_t *encoded_json(const struct feed_array *array) {
    const struct encoded encoded = encoded_find(array);
    if (!encoded.encoding)
        return json_null();
    return json_pack("{s:s, s:o, s:o}", "encoding", encoding_name(encoded.encoding), "width",
                     encoded.width ? json_integer(encoded.width) : json_null(), "height",
                     encoded.height ? json_integer(encoded.height) : json_null());
}

json_t *show_field_json(const struct shown_field *field, const struct show_style *style) {
    const struct feed_array *array = field->array;
    const struct summary *summary = &field->summary;
    return json_pack(
        "{s:o, s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", "name",
        ctl_json_text(array->name), "dtype", feed_dtype_name(array->dtype), "shape", shape_json(array),
        "count", (json_int_t)summary->count, "values", values_json(field, style), "text", text_json(array),
        "min", bound_json(summary, &summary->least), "max", bound_json(summary, &summary->most), "mean",
        summary_finite(summary) ? element_json(&summary->mean) : json_null(), "nan",
        (json_int_t)summary->nans, "infinite", (json_int_t)summary->infinite, "image", image_json(array),
        "encoded", encoded_json(array), "file", field->file ? ctl_json_text(field->file) : json_null());
}
