#include "client/ctl/render.h"

#include <errno.h>
#include <string.h>

#include "base/sizes.h"

#define GAP 2 // between columns

void text_clean(char *text) {
    for (unsigned char *byte = (unsigned char *)text; *byte; byte++)
        if (*byte < 0x20 || *byte == 0x7f || (*byte == 0xc2 && byte[1] >= 0x80 && byte[1] < 0xa0))
            *byte = '?'; // 0xc2 0x80..0x9f are control characters too
}

// Characters, not bytes: continuation bytes of UTF-8 take no column of their own.
static uint32_t text_width(const char *text) {
    uint32_t width = 0;
    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

size_t text_prefix(const char *text, uint32_t width) {
    const char *end = text;
    for (; *end; end++)
        if ((*end & 0xc0) != 0x80 && width-- == 0)
            break;
    return (size_t)(end - text);
}

int table_add(struct table *table, const char *const *texts) {
    uint32_t columns = table->column_count;
    if (table->row_count == table->row_room) {
        uint32_t room = table->row_room ? 2 * table->row_room : 16;
        char **cells = realloc(table->cells, (size_t)room * columns * sizeof *cells);
        if (!cells)
            return -ENOMEM;
        table->cells = cells;
        table->row_room = room;
    }
    char **row = table->cells + (size_t)table->row_count * columns;
    for (uint32_t i = 0; i < columns; i++) {
        row[i] = strdup(texts[i]);
        if (!row[i]) {
            while (i-- > 0)
                free(row[i]);
            return -ENOMEM;
        }
        text_clean(row[i]);
    }
    table->row_count++;
    return 0;
}

void table_free(struct table *table) {
    for (size_t i = 0; i < (size_t)table->row_count * table->column_count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->row_count = table->row_room = 0;
}

// Width of each column; 0 means that it is left out.
static void measure(const struct table *table, uint32_t *widths) {
    for (uint32_t column = 0; column < table->column_count; column++) {
        widths[column] = text_width(table->columns[column].title);
        for (uint32_t row = 0; row < table->row_count; row++) {
            uint32_t width = text_width(table->cells[(size_t)row * table->column_count + column]);
            if (width > widths[column])
                widths[column] = width;
        }
    }
}

static uint32_t total_width(const struct table *table, const uint32_t *widths) {
    uint32_t total = 0;
    for (uint32_t column = 0; column < table->column_count; column++)
        if (widths[column])
            total += widths[column] + (total ? GAP : 0);
    return total;
}

// What was given up first may still fit where a wider column did not; the most important one gets the room.
static void bring_back(const struct table *table, const uint32_t *whole, uint32_t *widths, uint32_t limit) {
    for (uint32_t rank = 1; rank <= table->column_count; rank++)
        for (uint32_t column = 0; column < table->column_count; column++) {
            if (widths[column] || table->columns[column].give_up != rank)
                continue;
            widths[column] = whole[column];
            if (total_width(table, widths) > limit)
                widths[column] = 0;
        }
}

static void leave_out(const struct table *table, uint32_t *widths, uint32_t limit) {
    uint32_t whole[TABLE_MAX_COLUMNS];
    memcpy(whole, widths, table->column_count * sizeof *widths);
    while (total_width(table, widths) > limit) {
        uint32_t victim = table->column_count, rank = 0;
        for (uint32_t column = 0; column < table->column_count; column++) {
            if (widths[column] && table->columns[column].give_up > rank) {
                rank = table->columns[column].give_up;
                victim = column;
            }
        }
        if (victim == table->column_count)
            return;
        widths[victim] = 0;
    }
    bring_back(table, whole, widths, limit);
}

static void pad(uint32_t count, FILE *out) {
    while (count-- > 0)
        fputc(' ', out);
}

// Bytes of the word at the start; a number and its unit are one word.
static size_t word_bytes(const char *text) {
    static const char *const units[] = {"%", "s", "ms", "B", "KiB", "MiB", "GiB", "TiB"};
    size_t length = strcspn(text, " ");
    if (strspn(text, "0123456789.,-") < length || text[length] != ' ')
        return length;
    const char *next = text + length + 1;
    const size_t unit = strcspn(next, " .,:;)");
    for (size_t i = 0; i < COUNT_OF(units); i++)
        if (unit == strlen(units[i]) && strncmp(next, units[i], unit) == 0)
            return length + 1 + strcspn(next, " ");
    return length;
}

void text_fold(const char *text, uint32_t at, uint32_t width, FILE *out) {
    uint32_t column = at;
    while (*text) {
        size_t blanks = strspn(text, " "), length = word_bytes(text + blanks);
        char word[512];
        snprintf(word, sizeof word, "%.*s", (int)length, text + blanks);
        uint32_t wide = text_width(word);
        if (width && column > at && column + blanks + wide > width) {
            fputc('\n', out);
            pad(at, out);
            column = at;
            text += blanks;
            blanks = 0;
        }
        fwrite(text, 1, blanks + length, out);
        column += (uint32_t)blanks + wide;
        text += blanks + length;
    }
    fputc('\n', out);
}

void text_print_answer(const char *text, uint32_t width, FILE *out, FILE *warnings) {
    static const char warning[] = "warning: ";
    bool first = true;
    for (size_t length = 0; *text; text += length + (text[length] != '\0')) {
        char line[1024];
        length = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        text_clean(line);
        if (strncmp(line, warning, strlen(warning)) == 0) {
            fprintf(warnings, "feedctl: %s\n", line);
            continue;
        }
        if (!first)
            fputs("  ", out);
        text_fold(line, first ? 0 : 2, width, out);
        first = false;
    }
}

// Prints at most `limit` characters, and no blanks at the end of the line.
static void print_row(const struct table *table, const uint32_t *widths, const char *const *cells,
                      uint32_t limit, FILE *out) {
    uint32_t at = 0, owed = 0;
    for (uint32_t column = 0; column < table->column_count && at + owed < limit; column++) {
        if (!widths[column])
            continue;
        uint32_t width = text_width(cells[column]), blanks = widths[column] - width;
        if (table->columns[column].right)
            owed += blanks;
        uint32_t shown = at + owed < limit ? (uint32_t)min_u64(width, limit - at - owed) : 0;
        if (shown > 0) {
            pad(owed, out);
            fwrite(cells[column], 1, text_prefix(cells[column], shown), out);
            at += owed + shown;
            owed = 0;
        }
        owed += GAP + (table->columns[column].right ? 0 : blanks);
    }
    fputc('\n', out);
}

bool table_fits(const struct table *table, uint32_t width) {
    uint32_t widths[TABLE_MAX_COLUMNS];
    measure(table, widths);
    if (width)
        leave_out(table, widths, width);
    return !width || total_width(table, widths) <= width;
}

void table_print(const struct table *table, uint32_t width, FILE *out) {
    uint32_t widths[TABLE_MAX_COLUMNS], limit = width ? width : UINT32_MAX;
    const char *titles[TABLE_MAX_COLUMNS];
    measure(table, widths);
    leave_out(table, widths, limit);
    for (uint32_t column = 0; column < table->column_count; column++)
        titles[column] = table->columns[column].title;
    if (!table->no_title)
        print_row(table, widths, titles, limit, out);
    for (uint32_t row = 0; row < table->row_count; row++)
        print_row(table, widths, (const char *const *)table->cells + (size_t)row * table->column_count, limit,
                  out);
}
