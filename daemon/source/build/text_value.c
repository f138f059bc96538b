#include "daemon/source/build/text_value.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool text_value_takes(uint32_t dtype) {
    return (dtype >= DTYPE_U8 && dtype <= DTYPE_I64) || dtype == DTYPE_F32 || dtype == DTYPE_F64;
}

static bool is_signed(uint32_t dtype) {
    return dtype == DTYPE_I8 || dtype == DTYPE_I16 || dtype == DTYPE_I32 || dtype == DTYPE_I64;
}

static bool take_signed(const char *text, char **end, size_t bytes, void *value) {
    int64_t number = strtoll(text, end, 10);
    int64_t most = INT64_MAX >> (64 - 8 * bytes);
    memcpy(value, &number, bytes); // little-endian
    return number <= most && number >= -most - 1;
}

static bool take_unsigned(const char *text, char **end, size_t bytes, void *value) {
    uint64_t number = strtoull(text, end, 10);
    memcpy(value, &number, bytes);
    return *text != '-' && number <= UINT64_MAX >> (64 - 8 * bytes);
}

// A number too small for its type becomes 0 or the like, as rounding has it; one that is too large is refused.
static bool take_real(const char *text, char **end, uint32_t dtype, void *value) {
    double wide = dtype == DTYPE_F64 ? strtod(text, end) : 0;
    float narrow = dtype == DTYPE_F32 ? strtof(text, end) : 0; // rounds once
    if (dtype == DTYPE_F64)
        memcpy(value, &wide, sizeof wide);
    else
        memcpy(value, &narrow, sizeof narrow);
    bool overflowed = errno == ERANGE && (isinf(wide) || isinf(narrow));
    errno = 0;
    return !overflowed;
}

bool text_value(const char *text, size_t length, uint32_t dtype, void *value) {
    char copy[TEXT_VALUE_BYTES + 1];
    char *end = copy;
    while (length && isspace((unsigned char)*text))
        text++, length--;
    while (length && (isspace((unsigned char)text[length - 1]) || text[length - 1] == '\0'))
        length--;
    if (length == 0 || length > TEXT_VALUE_BYTES || memchr(text, '\0', length))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    errno = 0;
    bool fits = dtype == DTYPE_F32 || dtype == DTYPE_F64 ? take_real(copy, &end, dtype, value)
                : is_signed(dtype)                       ? take_signed(copy, &end, dtype_bytes(dtype), value)
                                   : take_unsigned(copy, &end, dtype_bytes(dtype), value);
    return fits && *end == '\0' && errno == 0;
}
