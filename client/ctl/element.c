#include "client/ctl/element.h"

#include <complex.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/ctl/text.h"

// ---- One -------------------------------------------------------------------------------------------

static double from_f16(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return bits >> 15 ? -value : value;
}

static double from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// The next element of that type.
#define TAKE(type)                                                                                           \
    ({                                                                                                       \
        type taken;                                                                                          \
        memcpy(&taken, (const uint8_t *)data + index * sizeof taken, sizeof taken);                          \
        taken;                                                                                               \
    })

static struct element whole(enum element_kind kind, uint64_t value) {
    return (struct element){.kind = kind, .whole = value};
}

static struct element integer(int64_t value) {
    return (struct element){.kind = ELEMENT_SIGNED, .integer = value};
}

static struct element real(double value) {
    return (struct element){.kind = ELEMENT_REAL, .real = value};
}

static struct element complex_of(double first, double second) {
    return (struct element){.kind = ELEMENT_COMPLEX, .real = first, .imaginary = second};
}

struct element element_at(enum feed_dtype dtype, const void *data, uint64_t index) {
    struct pair32 {
        float parts[2];
    } narrow;
    struct pair64 {
        double parts[2];
    } wide;
    switch (dtype) {
    case FEED_BOOL:
        return whole(ELEMENT_BOOL, TAKE(uint8_t));
    case FEED_U8:
        return whole(ELEMENT_UNSIGNED, TAKE(uint8_t));
    case FEED_U16:
        return whole(ELEMENT_UNSIGNED, TAKE(uint16_t));
    case FEED_U32:
        return whole(ELEMENT_UNSIGNED, TAKE(uint32_t));
    case FEED_U64:
        return whole(ELEMENT_UNSIGNED, TAKE(uint64_t));
    case FEED_I8:
        return integer(TAKE(int8_t));
    case FEED_I16:
        return integer(TAKE(int16_t));
    case FEED_I32:
        return integer(TAKE(int32_t));
    case FEED_I64:
        return integer(TAKE(int64_t));
    case FEED_F16:
        return real(from_f16(TAKE(uint16_t)));
    case FEED_BF16:
        return real(from_bf16(TAKE(uint16_t)));
    case FEED_F32:
        return real(TAKE(float));
    case FEED_F64:
        return real(TAKE(double));
    case FEED_C64:
        narrow = TAKE(struct pair32);
        return complex_of(narrow.parts[0], narrow.parts[1]);
    case FEED_C128:
        wide = TAKE(struct pair64);
        return complex_of(wide.parts[0], wide.parts[1]);
    default:
        return real(NAN);
    }
}

// hypot needs glibc 2.35, and not every compiler has CMPLX.
static double modulus(double real, double imaginary) {
    const double parts[] = {real, imaginary};
    double complex number;
    memcpy(&number, parts, sizeof number);
    return cabs(number);
}

double element_number(const struct element *element) {
    switch (element->kind) {
    case ELEMENT_BOOL:
        return element->whole != 0;
    case ELEMENT_UNSIGNED:
        return (double)element->whole;
    case ELEMENT_SIGNED:
        return (double)element->integer;
    case ELEMENT_REAL:
        return element->real;
    case ELEMENT_COMPLEX:
        return modulus(element->real, element->imaginary);
    }
    return NAN;
}

// printf shows the sign of a NaN, which means nothing.
static double unsigned_nan(double value) {
    return isnan(value) ? (double)NAN : value;
}

const char *element_format(const struct element *element, char text[ELEMENT_TEXT]) {
    switch (element->kind) {
    case ELEMENT_BOOL:
        snprintf(text, ELEMENT_TEXT, "%s", element->whole ? "true" : "false");
        break;
    case ELEMENT_UNSIGNED:
        snprintf(text, ELEMENT_TEXT, "%" PRIu64, element->whole);
        break;
    case ELEMENT_SIGNED:
        snprintf(text, ELEMENT_TEXT, "%" PRId64, element->integer);
        break;
    case ELEMENT_REAL:
        snprintf(text, ELEMENT_TEXT, "%.6g", unsigned_nan(element->real));
        break;
    case ELEMENT_COMPLEX:
        snprintf(text, ELEMENT_TEXT, "%.6g%+.6gi", unsigned_nan(element->real),
                 unsigned_nan(element->imaginary));
        break;
    }
    return text;
}

json_t *element_real_json(double value) {
    if (isnan(value))
        return json_string("NaN");
    if (isinf(value))
        return json_string(value > 0 ? "Infinity" : "-Infinity");
    return json_real(value);
}

json_t *element_json(const struct element *element) {
    switch (element->kind) {
    case ELEMENT_BOOL:
        return json_boolean(element->whole != 0);
    case ELEMENT_UNSIGNED:
        return element->whole > INT64_MAX ? ctl_json_word(element->whole)
                                          : json_integer((json_int_t)element->whole);
    case ELEMENT_SIGNED:
        return json_integer(element->integer);
    case ELEMENT_REAL:
        return element_real_json(element->real);
    case ELEMENT_COMPLEX:
        return json_pack("[o, o]", element_real_json(element->real), element_real_json(element->imaginary));
    }
    return NULL;
}

// ---- Many ------------------------------------------------------------------------------------------

static bool is_nan(const struct element *element) {
    bool imaginary = element->kind == ELEMENT_COMPLEX && isnan(element->imaginary);
    return imaginary || (element->kind >= ELEMENT_REAL && isnan(element->real));
}

static bool is_infinite(const struct element *element) {
    bool imaginary = element->kind == ELEMENT_COMPLEX && isinf(element->imaginary);
    return imaginary || (element->kind >= ELEMENT_REAL && isinf(element->real));
}

// Integers are compared as such: a double has too few digits for them.
static bool is_less(const struct element *left, const struct element *right) {
    switch (left->kind) {
    case ELEMENT_BOOL:
    case ELEMENT_UNSIGNED:
        return left->whole < right->whole;
    case ELEMENT_SIGNED:
        return left->integer < right->integer;
    case ELEMENT_REAL:
        return left->real < right->real;
    case ELEMENT_COMPLEX:
        break;
    }
    return element_number(left) < element_number(right);
}

static long double first_part(const struct element *element) {
    switch (element->kind) {
    case ELEMENT_BOOL:
        return element->whole != 0;
    case ELEMENT_UNSIGNED:
        return element->whole;
    case ELEMENT_SIGNED:
        return element->integer;
    case ELEMENT_REAL:
    case ELEMENT_COMPLEX:
        break;
    }
    return element->real;
}

struct summary summarise(enum feed_dtype dtype, const void *data, uint64_t count) {
    struct summary summary = {.count = count};
    long double sum = 0, imaginary = 0; // of f64 too, without overflow
    uint64_t finite = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct element element = element_at(dtype, data, i);
        bool nan = is_nan(&element), infinite = !nan && is_infinite(&element);
        summary.nans += nan;
        summary.infinite += infinite;
        summary.truths += element.kind == ELEMENT_BOOL && element.whole;
        if (nan || infinite)
            continue;
        if (!finite || is_less(&element, &summary.least))
            summary.least = element;
        if (!finite || is_less(&summary.most, &element))
            summary.most = element;
        finite++;
        sum += first_part(&element);
        imaginary += element.kind == ELEMENT_COMPLEX ? element.imaginary : 0;
    }
    bool pairs = dtype == FEED_C64 || dtype == FEED_C128;
    summary.mean.kind = pairs ? ELEMENT_COMPLEX : ELEMENT_REAL;
    if (finite) {
        summary.mean.real = (double)(sum / finite);
        summary.mean.imaginary = (double)(imaginary / finite);
    }
    return summary;
}
