#include "daemon/source/build/field_words.h"

#include <ctype.h>
#include <string.h>

#include "base/dtype.h"
#include "base/names.h"
#include "base/sizes.h"

const char *field_skip_blanks(const char *at) {
    return at + strspn(at, " \t");
}

bool field_take_number(const char **at, uint64_t *number) {
    *number = 0;
    if (!isdigit((unsigned char)**at))
        return false;
    for (; isdigit((unsigned char)**at); (*at)++)
        if (__builtin_mul_overflow(*number, 10u, number) ||
            __builtin_add_overflow(*number, (uint64_t)(**at - '0'), number))
            return false;
    *at = field_skip_blanks(*at);
    return true;
}

const char *field_nearest_type(const char *type) {
    static const char *const words[] = {"bytes", "length"};
    const char *nearest = name_nearest(type, words, COUNT_OF(words)); // "byte" means bytes here, not u8
    return nearest || dtype_parse(type) ? nearest : dtype_nearest(type);
}
