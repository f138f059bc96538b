#include "daemon/config/change_lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sentence.h"

#define LINE_BYTES 768u // two values of the longest option and what is said about them
#define MORE_BYTES 40u  // room kept for the line that says how many were left out

void change_lines_add(struct change_lines *lines, const char *format, ...) {
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    sentence_format(line, sizeof line, format, arguments);
    va_end(arguments);
    size_t length = strlen(line) + (lines->used > 0);
    lines->count++;
    if (lines->left_out > 0 || lines->used + length + MORE_BYTES > lines->bytes)
        lines->left_out++;
    else
        lines->used += (size_t)snprintf(lines->text + lines->used, lines->bytes - lines->used, "%s%s",
                                        lines->used > 0 ? "\n" : "", line);
}

void change_lines_end(struct change_lines *lines) {
    if (lines->left_out > 0)
        snprintf(lines->text + lines->used, lines->bytes - lines->used, "%s... and %zu more",
                 lines->used > 0 ? "\n" : "", lines->left_out);
    else if (lines->used == 0 && lines->bytes > 0)
        *lines->text = '\0';
}
