#include "daemon/source/folder/csv.h"

#include <inttypes.h>
#include <string.h>

void csv_start(struct csv *csv, char *text, size_t bytes) {
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    size_t skip = bytes >= 3 && memcmp(text, byte_order_mark, 3) == 0 ? 3 : 0;
    *csv = (struct csv){.at = text + skip, .end = text + bytes, .line = 1};
}

// The length of the line's end there: 0, it is none.
static size_t line_end(const struct csv *csv, const char *at) {
    if (at < csv->end && *at == '\n')
        return 1;
    return csv->end - at >= 2 && at[0] == '\r' && at[1] == '\n' ? 2 : 0;
}

// The closing mark must be followed by the end of the cell. Two marks become one, in place.
static int take_quoted(struct csv *csv, struct csv_cell *cell, struct error *error) {
    uint64_t line = csv->line;
    char *from = ++csv->at, *to = from;
    cell->text = from;
    for (; from < csv->end; from++) {
        if (*from == '\n')
            csv->line++;
        if (*from != '"') {
            *to++ = *from;
            continue;
        }
        if (csv->end - from < 2 || from[1] != '"')
            break;
        *to++ = *from++;
    }
    if (from == csv->end)
        return error_set(error, -EINVAL, "line %" PRIu64 ": found a quotation mark that is never closed",
                         line);
    csv->at = from + 1;
    cell->bytes = (size_t)(to - cell->text);
    if (csv->at == csv->end || *csv->at == ',' || line_end(csv, csv->at))
        return 0;
    return error_set(error, -EINVAL,
                     "line %" PRIu64
                     ": found text after a closing quotation mark, wanted a comma or the end of"
                     " the line",
                     csv->line);
}

static int take_cell(struct csv *csv, struct csv_cell *cell, struct error *error) {
    if (csv->at < csv->end && *csv->at == '"')
        return take_quoted(csv, cell, error);
    cell->text = csv->at;
    while (csv->at < csv->end && *csv->at != ',' && !line_end(csv, csv->at))
        csv->at++;
    cell->bytes = (size_t)(csv->at - cell->text);
    return 0;
}

int csv_next(struct csv *csv, struct csv_cell cells[CSV_MAX_CELLS], uint32_t *count, struct error *error) {
    size_t end;
    *count = 0;
    while ((end = line_end(csv, csv->at))) {
        csv->at += end;
        csv->line++;
    }
    csv->row = csv->line;
    if (csv->at == csv->end)
        return 0;
    for (;;) {
        if (*count == CSV_MAX_CELLS)
            return error_set(error, -EINVAL, "line %" PRIu64 ": found too many columns, wanted at most %u",
                             csv->row, CSV_MAX_CELLS);
        int err = take_cell(csv, &cells[*count], error);
        if (err)
            return err;
        ++*count;
        if (csv->at == csv->end)
            return 1;
        if (*csv->at == ',') {
            csv->at++;
            continue;
        }
        csv->at += line_end(csv, csv->at);
        csv->line++;
        return 1;
    }
}
