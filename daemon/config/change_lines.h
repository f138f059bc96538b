// What a reload changes, in lines for people, in memory of a fixed size.
#ifndef FEEDD_DAEMON_CONFIG_CHANGE_LINES_H
#define FEEDD_DAEMON_CONFIG_CHANGE_LINES_H

#include <stddef.h>

#include "base/scope.h"

// `text` has room for `bytes`; the others are 0. Lines are separated by '\n'; the last has none.
struct change_lines {
    char *text;
    size_t bytes, used;
    size_t count, left_out; // all lines, and those of them that do not fit
};

void change_lines_add(struct change_lines *lines, const char *format, ...) PRINTF_LIKE(2, 3);

// After the last one: if some do not fit, another line says how many. Without any, the text is empty.
void change_lines_end(struct change_lines *lines);

#endif
