#include "daemon/config/config_values.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"

// Leading decimal digits. Returns their end, or NULL if there are none or too many.
static const char *parse_digits(const char *text, uint64_t *value) {
    const char *at = text;
    *value = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(*value, 10u, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*at - '0'), value))
            return NULL;
    return at == text ? NULL : at;
}

bool value_parse_integer(const char *text, uint64_t *value) {
    const char *end = parse_digits(text, value);
    return end && *end == '\0';
}

bool value_parse_size(const char *text, uint64_t *value) {
    static const char units[] = "KMGT";
    const char *end = parse_digits(text, value);
    if (!end)
        return false;
    if (*end == '\0')
        return true;
    const char *unit = strchr(units, *end);
    if (!unit || end[1] != '\0')
        return false;
    return !__builtin_mul_overflow(*value, (uint64_t)1 << (10 * (unit - units + 1)), value);
}

bool value_parse_duration(const char *text, uint64_t *seconds) {
    const char *end = parse_digits(text, seconds);
    if (!end || (*end && end[1]))
        return false;
    switch (*end) {
    case '\0':
    case 's':
        return true;
    case 'm':
        return !__builtin_mul_overflow(*seconds, 60u, seconds);
    case 'h':
        return !__builtin_mul_overflow(*seconds, 3600u, seconds);
    default:
        return false;
    }
}

bool value_parse_mode(const char *text, uint64_t *mode) {
    size_t digits = strlen(text);
    if (digits < 3 || digits > 4 || strspn(text, "01234567") != digits)
        return false;
    *mode = strtoull(text, NULL, 8);
    return true;
}

bool value_parse_bool(const char *text, bool *value) {
    static const struct {
        const char *name;
        bool value;
    } names[] = {{"yes", true},    {"no", false}, {"true", true},
                 {"false", false}, {"on", true},  {"off", false}};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (strcmp(text, names[i].name) != 0)
            continue;
        *value = names[i].value;
        return true;
    }
    return false;
}

bool value_parse_choice(const char *text, const char *choices, uint64_t *value) {
    size_t length = strlen(text);
    *value = 0;
    for (const char *at = choices;; at++, (*value)++) {
        size_t choice = strcspn(at, "|");
        if (choice == length && memcmp(at, text, length) == 0)
            return length > 0;
        at += choice;
        if (*at == '\0')
            return false;
    }
}

const char *value_choice_name(const char *choices, uint64_t value, char *name, size_t bytes) {
    const char *at = choices;
    for (; value > 0; value--) {
        at = strchr(at, '|');
        if (!at)
            break;
        at++;
    }
    snprintf(name, bytes, "%.*s", at ? (int)strcspn(at, "|") : 1, at ? at : "?");
    return name;
}

const char *value_format_size(uint64_t value, char text[VALUE_TEXT]) {
    static const char *const units[] = {"", "K", "M", "G", "T"};
    size_t unit = 0;
    while (value && value % 1024 == 0 && unit + 1 < COUNT_OF(units)) {
        value /= 1024;
        unit++;
    }
    snprintf(text, VALUE_TEXT, "%" PRIu64 "%s", value, units[unit]);
    return text;
}
