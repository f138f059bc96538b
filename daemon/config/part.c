#include "daemon/config/part.h"

#include <errno.h>
#include <string.h>

#include "order/selection.h"

#define DECIMALS 4

struct part part_whole(void) {
    return (struct part){.end = {.value = SELECTION_WHOLE, .relative = true}};
}

static bool take_digit(const char **at, uint64_t *value) {
    if (**at < '0' || **at > '9' || __builtin_mul_overflow(*value, 10u, value) ||
        __builtin_add_overflow(*value, (uint64_t)(**at - '0'), value))
        return false;
    ++*at;
    return true;
}

static bool is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

// Up to four digits after a point; the value then counts ten thousandths.
static bool take_decimals(const char **at, uint64_t *value) {
    uint32_t digits = 0;
    bool point = **at == '.' && is_digit((*at)[1]);
    if (point)
        ++*at;
    for (; point && is_digit(**at); digits++)
        if (digits == DECIMALS || !take_digit(at, value))
            return false;
    for (; digits < DECIMALS; digits++)
        if (__builtin_mul_overflow(*value, 10u, value))
            return false;
    return true;
}

// "90%", "33.3333%" or "1000".
static bool take_bound(const char **at, struct part_bound *bound) {
    uint64_t value = 0;
    if (!is_digit(**at))
        return false;
    while (is_digit(**at))
        if (!take_digit(at, &value))
            return false;
    *bound = (struct part_bound){.value = value};
    uint64_t millionths = value;
    const char *end = *at;
    if (!take_decimals(&end, &millionths) || *end != '%')
        return true;
    *bound = (struct part_bound){.value = millionths, .relative = true};
    *at = end + 1;
    return millionths <= SELECTION_WHOLE;
}

static void skip_blanks(const char **at) {
    *at += strspn(*at, " \t");
}

bool part_parse(const char *text, struct part *part) {
    *part = part_whole();
    skip_blanks(&text);
    if (*text != '.' && !take_bound(&text, &part->begin))
        return false;
    skip_blanks(&text);
    if (strncmp(text, "..", 2) != 0)
        return false;
    text += 2;
    skip_blanks(&text);
    if (*text && !take_bound(&text, &part->end))
        return false;
    skip_blanks(&text);
    return *text == '\0';
}

static uint64_t place_bound(const struct part_bound *bound, uint64_t of) {
    return bound->relative ? selection_bound(of, (uint32_t)bound->value) : bound->value;
}

int part_of(const struct part *part, uint64_t of, uint64_t *first, uint64_t *count) {
    uint64_t begin = place_bound(&part->begin, of), end = place_bound(&part->end, of);
    if (begin > end || end > of)
        return -ERANGE;
    *first = begin;
    *count = end - begin;
    return *count ? 0 : -ENODATA;
}
