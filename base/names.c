#include "base/names.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/sizes.h"

bool name_is_valid(const char *text) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(text);
    return length <= NAME_LENGTH_MAX && strspn(text, allowed) == length;
}

static bool same_letter(char left, char right) {
    return tolower((unsigned char)left) == tolower((unsigned char)right);
}

uint32_t name_distance(const char *left, const char *right) {
    uint32_t row[NAME_LENGTH_MAX + 2];
    size_t columns = strnlen(right, COUNT_OF(row) - 1);
    for (size_t column = 0; column <= columns; column++)
        row[column] = (uint32_t)column;
    for (size_t line = 0; left[line]; line++) {
        uint32_t diagonal = row[0];
        row[0] = (uint32_t)line + 1;
        for (size_t column = 0; column < columns; column++) {
            uint32_t changed = diagonal + !same_letter(left[line], right[column]);
            uint32_t moved = (row[column] < row[column + 1] ? row[column] : row[column + 1]) + 1;
            diagonal = row[column + 1];
            row[column + 1] = changed < moved ? changed : moved;
        }
    }
    return row[columns];
}

// "log" for "log_level"; of several candidates none.
static const char *find_longer(const char *wanted, const char *const *have, size_t count) {
    const char *found = NULL;
    size_t length = strlen(wanted);
    for (size_t i = 0; i < count; i++) {
        if (!have[i] || length < 3 || strncasecmp(have[i], wanted, length) != 0)
            continue;
        if (found)
            return NULL;
        found = have[i];
    }
    return found;
}

const char *name_nearest(const char *wanted, const char *const *have, size_t count) {
    const char *nearest = NULL;
    uint32_t best = 3; // more changes than 2 make another word
    for (size_t i = 0; i < count; i++) {
        uint32_t distance = have[i] ? name_distance(wanted, have[i]) : best;
        if (distance >= best || distance >= strlen(have[i]))
            continue;
        best = distance;
        nearest = have[i];
    }
    return nearest ? nearest : find_longer(wanted, have, count);
}
