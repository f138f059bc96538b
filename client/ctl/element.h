// Elements of a field as numbers, and what can be said of many of them. Pure.
#ifndef FEEDD_CLIENT_CTL_ELEMENT_H
#define FEEDD_CLIENT_CTL_ELEMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/feed.h"

enum element_kind {
    ELEMENT_BOOL,
    ELEMENT_UNSIGNED,
    ELEMENT_SIGNED,
    ELEMENT_REAL,
    ELEMENT_COMPLEX,
};

struct element {
    enum element_kind kind;
    union {
        uint64_t whole;  // BOOL (any but 0 is true) and UNSIGNED
        int64_t integer; // SIGNED
        double real;     // REAL and COMPLEX
    };
    double imaginary; // COMPLEX
};

// Element number `index` of a packed little-endian array, which need not be aligned.
struct element element_at(enum feed_dtype dtype, const void *data, uint64_t index);

// A number for arithmetic; of a complex one its magnitude.
double element_number(const struct element *element);

#define ELEMENT_TEXT 64

// For people: "true", "-7", "0.25", "1+2i", "nan"; six significant digits.
const char *element_format(const struct element *element, char text[ELEMENT_TEXT]);

// Exact. Complex numbers are arrays of two. Integers of more than 63 bits, "NaN", "Infinity" and "-Infinity" are
// strings. NULL when out of memory.
json_t *element_json(const struct element *element);
json_t *element_real_json(double value);

struct summary {
    uint64_t count;
    uint64_t nans, infinite;    // left out below; a complex number counts once, as NaN if either part is
    uint64_t truths;            // BOOL
    struct element least, most; // by value, of complex numbers by magnitude; only if any is finite
    struct element mean;        // REAL, or COMPLEX
};

struct summary summarise(enum feed_dtype dtype, const void *data, uint64_t count);

// Those that `least`, `most` and `mean` are of.
static inline uint64_t summary_finite(const struct summary *summary) {
    return summary->count - summary->nans - summary->infinite;
}

#endif
