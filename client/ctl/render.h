// Tables for a terminal or a pipe. Pure: text in, text out.
#ifndef FEEDD_CLIENT_CTL_RENDER_H
#define FEEDD_CLIENT_CTL_RENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"

#define TABLE_MAX_COLUMNS 24

struct column {
    const char *title;
    bool right; // numbers stand at the right
    // If the width is too small, columns are left out in this order, the highest first, unless they are so narrow that
    // they fit where a more important one does not. 0: never.
    uint32_t give_up;
};

struct table {
    const struct column *columns;
    uint32_t column_count; // at most TABLE_MAX_COLUMNS
    bool no_title;
    uint32_t row_count, row_room;
    char **cells; // row after row
};

// Adds a row of `column_count` texts, which are copied. -ENOMEM
int table_add(struct table *table, const char *const *texts);

// Writes title and rows. Columns that do not fit into `width` (0: any) characters are left out; what is still
// too long is cut.
void table_print(const struct table *table, uint32_t width, FILE *out);

// Whether nothing is cut then.
bool table_fits(const struct table *table, uint32_t width);

void table_free(struct table *table);

// Bytes of the first `width` characters.
size_t text_prefix(const char *text, uint32_t width);

// Writes `text`, which begins at column `at`, and continues at the same column of new lines where the next word would
// pass `width` (0: any). A word that is longer than a line is not cut.
void text_fold(const char *text, uint32_t at, uint32_t width, FILE *out);

// What the daemon answers to a command: its first line, the others below it, indented and folded. Lines that begin with
// "warning: " go to `warnings` instead, as "feedctl: warning: ...".
void text_print_answer(const char *text, uint32_t width, FILE *out, FILE *warnings);

// Control characters, which would reach the user's terminal, become '?'.
void text_clean(char *text);

#endif
