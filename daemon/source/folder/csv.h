// CSV files as RFC 4180 has them and as Python's csv module writes them: commas, lines that end with LF or CRLF, and
// cells in quotation marks, which may contain both, and two marks for one. Empty lines are left out. Cells keep their
// blanks.
#ifndef FEEDD_DAEMON_SOURCE_FOLDER_CSV_H
#define FEEDD_DAEMON_SOURCE_FOLDER_CSV_H

#include "base/error.h"

#define CSV_MAX_CELLS 1024u // in a row

struct csv_cell {
    const char *text; // not ended with 0
    size_t bytes;
};

struct csv {
    char *at, *end; // what is left of the file; changed by reading it
    uint64_t line;  // the next one, from 1
    uint64_t row;   // where the row that was read last begins
};

// `text` is the whole file.
void csv_start(struct csv *csv, char *text, size_t bytes);

// 1: cells[0..*count-1] are the next row; they are valid as long as the text. 0: there is none. -EINVAL.
int csv_next(struct csv *csv, struct csv_cell cells[CSV_MAX_CELLS], uint32_t *count, struct error *error);

#endif
