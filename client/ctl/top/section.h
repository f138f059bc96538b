// A section of the screen of feedctl top: a table whose rows are sorted, picked and scrolled. Pure: knows no terminal.
#ifndef FEEDD_CLIENT_CTL_TOP_SECTION_H
#define FEEDD_CLIENT_CTL_TOP_SECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "client/ctl/render.h"

#define CELL_BYTES      112
#define SECTION_COLUMNS 12 // at most

struct top_cell {
    char text[CELL_BYTES];
    double value; // what rows are sorted by; if two rows have the same, their texts decide
};

struct top_row {
    uint64_t key;  // the same for as long as it is the same thing
    uint64_t feed; // that it belongs to; 0: none
    bool idle;     // its feed has no consumers, so it comes last when the first column is the sort key
    struct top_cell cells[SECTION_COLUMNS];
};

struct section {
    const char *title; // "LOADERS"
    const struct column *columns;
    uint32_t column_count;
    uint32_t sort; // a column
    bool descending;
    struct top_row *rows;
    uint32_t count, room;
    uint64_t picked; // the key of a row; 0: none, which is the first
    uint32_t first;  // the first row that is shown
};

// Another row, empty; NULL: no memory.
struct top_row *section_add(struct section *section, uint64_t key, uint64_t feed);
void section_clear(struct section *section);
void section_free(struct section *section);

void section_sort(struct section *section);
// Sorts by the next column; one that shows a history cannot be sorted by, and has the title "HISTORY".
void section_sort_next(struct section *section);

// The place of the picked row, or of the first one if that row is gone. UINT32_MAX: there is none.
uint32_t section_picked(const struct section *section);
// Picks the row that many places further, within the table.
void section_move(struct section *section, int32_t places);

// Writes a title line and at most `lines` rows, of which one is the picked row if `scroll`. Returns how many rows, and
// in *picked_line which of them is picked.
uint32_t section_print(struct section *section, uint32_t width, uint32_t lines, bool scroll,
                       uint32_t *picked_line, FILE *out);

#endif
